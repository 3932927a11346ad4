"""`bench serve` against a small scripted server: requests, failures and the figures."""

import asyncio
import json
import re
import socket
import statistics
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from support.patience import SOON
from support.server.live_server import wait_for

from minivllm.cli import main
from minivllm.lab.bench.serve.client import Timing
from minivllm.lab.bench.serve.load import make_prompts
from minivllm.lab.bench.serve.metrics import summarise


class FakeServer:
    """Streams the requested number of tokens; every third request ends as `ends` says."""

    def __init__(self, ends: str = "well") -> None:
        self.ends = ends
        self.bodies: list[dict] = []
        self.running = self.most_running = 0
        self.app = FastAPI()
        models = {"object": "list", "data": [{"id": "fake-model"}]}
        self.app.get("/v1/models")(lambda: models)
        self.app.post("/v1/completions")(self.completions)

    async def completions(self, request: Request):
        self.bodies.append(await request.json())
        how = "well" if len(self.bodies) % 3 else self.ends
        if how == "refuses":
            return JSONResponse({"error": {"message": "too busy"}}, 429)
        stream = self.tokens(self.bodies[-1], how)
        return StreamingResponse(stream, media_type="text/event-stream")

    async def tokens(self, body: dict, how: str):
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        number = body["max_tokens"]
        for i in range(number):
            await asyncio.sleep(0.01)
            if i == number // 2 and how in ("cut", "error"):
                yield b'data: {"error": {"message": "the engine failed"}}\n\n' * (how == "error")
                break
            reason = "length" if i == number - 1 else None
            choice = {"index": 0, "text": "" if i % 3 else "x", "finish_reason": reason}
            yield b": ping\n\ndata: %b\n\n" % json.dumps({"choices": [choice]}).encode()
        else:
            counted = {"prompt_tokens": len(body["prompt"].split()) + 1}
            usage = {"choices": [], "usage": {**counted, "completion_tokens": number}}
            yield b"data: %b\n\n" % json.dumps({} if how == "silent" else usage).encode()
        yield b"data: [DONE]\n\n"
        self.running -= 1


@contextmanager
def served(app: FastAPI) -> Iterator[str]:
    """The address of the app, which uvicorn serves on a free port in a thread."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        config = uvicorn.Config(app, log_level="error", lifespan="off", timeout_graceful_shutdown=3)
        server = uvicorn.Server(config)
        thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
        thread.start()
        try:
            wait_for(lambda: server.started)
            yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            server.should_exit = True
            thread.join(SOON)
    assert not thread.is_alive()


def bench(server: FakeServer, capsys, *options: str) -> tuple[int, dict, list[str]]:
    with served(server.app) as url:
        status = main(["bench", "serve", "--base-url", url, "--json", *options])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err.splitlines()


def test_what_is_counted_is_what_the_server_did(capsys):
    server = FakeServer()
    options = ["--num-prompts", "9", "--random-input-len", "12", "--random-output-len", "6"]
    options += ["--max-concurrency", "3", "--ignore-eos"]
    status, result, lines = bench(server, capsys, *options)
    assert (status, result["model"]) == (0, "fake-model")
    assert (result["completed"], result["failed"], server.most_running) == (9, 0, 3)
    assert result["total_input_tokens"] == 9 * 13 and result["total_output_tokens"] == 9 * 6
    assert result["output_throughput"] == pytest.approx(54 / result["duration"])
    # Three requests at a time; with their waiting in the client it would be more.
    assert 9 * result["mean_e2el_ms"] / 1000 <= 3 * result["duration"]
    _warm_up, *bodies = server.bodies
    sent = {"max_tokens": 6, "ignore_eos": True, "stream_options": {"include_usage": True}}
    assert all(body | sent == body for body in bodies)
    assert sorted(body["prompt"] for body in bodies) == sorted(make_prompts(9, 12, seed=0))
    assert f"{'Mean TTFT (ms):':<40} {result['mean_ttft_ms']:<10.2f}" in lines, "vLLM's layout"


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ("cut", "the answer ended without a finish_reason"),
        ("error", "the engine failed"),
        ("silent", "did not report how many tokens"),
        ("refuses", "429 Too Many Requests: .*too busy"),
    ],
)
def test_a_failed_request_is_counted_reported_and_left_out(ends, sentence, capsys):
    options = ["--num-prompts", "8", "--random-output-len", "4"]
    status, result, lines = bench(FakeServer(ends), capsys, *options)
    assert status == 1 and result["failed"] == 3 and result["completed"] == 5
    assert result["total_output_tokens"] == 20
    assert sum(bool(re.match(rf"A request failed: .*{sentence}", line)) for line in lines) == 3


def test_the_numbers_of_a_small_run_match_a_calculation_by_hand():
    timings = [
        Timing(10.0, 5, 3, ttft=0.1, itl=[0.2, 0.4], latency=0.7),
        Timing(10.5, 7, 1, ttft=0.3, itl=[], latency=0.3),
        Timing(11.2, 9, 2, ttft=0.2, itl=[1.1], latency=1.3),
        Timing(11.3, 0, 0, error="it broke"),
    ]
    result = summarise(timings, 2.5, (50, 99))
    assert (result["completed"], result["failed"]) == (3, 1)
    assert (result["total_input_tokens"], result["total_output_tokens"]) == (21, 6)
    assert result["request_throughput"] == pytest.approx(1.2)
    assert result["mean_ttft_ms"] == result["median_ttft_ms"] == pytest.approx(200)
    assert result["mean_tpot_ms"] == pytest.approx(statistics.mean([300, 1100]))
    assert result["mean_itl_ms"] == pytest.approx(statistics.mean([200, 400, 1100]))
    assert result["p99_ttft_ms"] == pytest.approx(298)
    # Messages at .1 .3 .7 | .8 | 1.4 2.5 seconds; running: 2, then 1, then 1.
    assert result["max_output_tokens_per_s"] == 4 and result["max_concurrent_requests"] == 2


@pytest.mark.parametrize("options", ["--request-rate nan", "--metric-percentiles 50,101"])
def test_an_option_out_of_range_is_refused_before_anything_is_sent(options, capsys):
    assert main(["bench", "serve", *options.split()]) == 2
    assert "must be" in capsys.readouterr().err
