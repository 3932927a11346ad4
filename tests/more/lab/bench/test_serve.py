"""`bench serve` against a small scripted server: requests, measurements and output."""

import asyncio
import json
import math
import re
import statistics
from dataclasses import dataclass, field

import numpy as np
import pytest
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, StreamingResponse
from support.server.server_on_loopback import served

from minivllm.cli import main
from minivllm.lab.bench.serve.client import Timing, arrival_times
from minivllm.lab.bench.serve.load import make_prompts
from minivllm.lab.bench.serve.metrics import summarise


@dataclass
class FakeServer:
    """Streams the requested number of tokens with delays."""

    first: float = 0.02
    gap: float = 0.005
    ends: str = "well"
    """Or: `cut`, `error`, `silent about usage`, `refuses`."""
    only_every: int = 1
    """One request in this many ends like that; the others end well."""
    bodies: list[dict] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    running: int = 0
    most_running: int = 0

    def app(self) -> FastAPI:
        app = FastAPI()

        @app.get("/v1/models")
        def models() -> dict:
            return {"object": "list", "data": [{"id": "fake-model"}]}

        @app.post("/v1/completions")
        async def completions(request: Request):
            self.bodies.append(await request.json())
            self.keys.append(request.headers.get("authorization"))
            how = (
                self.ends
                if len(self.bodies) > 1 and len(self.bodies) % self.only_every == 0
                else "well"
            )
            if how == "refuses":
                return JSONResponse({"error": {"message": "too busy"}}, 429)
            return StreamingResponse(
                self._tokens(self.bodies[-1], how), media_type="text/event-stream"
            )

        return app

    async def _tokens(self, body: dict, how: str):
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        number = body["max_tokens"]
        for i in range(number):
            await asyncio.sleep(self.first if i == 0 else self.gap)
            if i == number // 2 and how == "cut":
                break
            if i == number // 2 and how == "error":
                yield b'data: {"error": {"message": "the engine failed"}}\n\n'
                break
            reason = "length" if i == number - 1 else None
            choice = {"index": 0, "text": "" if i % 3 else "x", "finish_reason": reason}
            yield b": ping\n\ndata: %b\n\n" % json.dumps({"choices": [choice]}).encode()
        else:
            if how != "silent about usage":
                usage = {
                    "prompt_tokens": len(body["prompt"].split()) + 1,
                    "completion_tokens": number,
                }
                yield b"data: %b\n\n" % json.dumps({"choices": [], "usage": usage}).encode()
        yield b"data: [DONE]\n\n"
        self.running -= 1


def bench(server: FakeServer, capsys, *options: str) -> tuple[int, dict, list[str]]:
    with served(server.app()) as url:
        status = main(["bench", "serve", "--base-url", url, "--json", *options])
    captured = capsys.readouterr()
    return status, json.loads(captured.out), captured.err.splitlines()


def test_what_is_measured_is_what_the_server_did(capsys):
    server = FakeServer(first=0.05, gap=0.01)
    options = ["--num-prompts", "8", "--random-input-len", "12", "--random-output-len", "6"]
    status, result, lines = bench(server, capsys, *options, "--ignore-eos")
    assert (status, result["model"]) == (0, "fake-model")
    assert (result["completed"], result["failed"]) == (8, 0)
    assert result["total_input_tokens"] == 8 * 13 and result["total_output_tokens"] == 8 * 6
    assert 50 <= result["median_ttft_ms"] <= result["median_e2el_ms"] - 50
    assert result["median_tpot_ms"] >= 10 and result["median_itl_ms"] >= 10
    assert result["output_throughput"] == pytest.approx(48 / result["duration"])
    assert result["total_token_throughput"] == pytest.approx((48 + 104) / result["duration"])
    assert result["max_concurrent_requests"] == 8
    warm_up, *bodies = server.bodies
    assert warm_up["prompt"] == "Hello there"
    sent = {"max_tokens": 6, "ignore_eos": True, "stream": True}
    assert all(
        body | sent == body and body["stream_options"] == {"include_usage": True} for body in bodies
    )
    # After the progress come vLLM's lines in vLLM's layout.
    lines = lines[lines.index("============ Serving Benchmark Result ============") :]
    assert lines[1].startswith("Successful requests:") and lines[-1] == "=" * 50
    assert "---------------Time to First Token----------------" in lines
    assert f"{'Mean TTFT (ms):':<40} {result['mean_ttft_ms']:<10.2f}" in lines
    assert sorted(body["prompt"] for body in bodies) == sorted(make_prompts(8, 12, seed=0))


def test_concurrency_is_limited_and_client_side_waiting_is_not_counted(capsys):
    server = FakeServer(first=0.03, gap=0.0)
    options = ["--num-prompts", "9", "--random-output-len", "2", "--max-concurrency", "3"]
    _, result, _ = bench(server, capsys, *options)
    assert server.most_running == 3 and result["max_concurrent_requests"] <= 9
    assert result["duration"] > 0.09
    # Three requests at a time spend at most three times the run. With their waiting it would be
    # twice that.
    assert 9 * result["mean_ttft_ms"] / 1000 <= 3 * result["duration"]


@pytest.mark.parametrize(
    ("ends", "sentence"),
    [
        ("cut", "the answer ended without a finish_reason"),
        ("error", "the engine failed"),
        ("silent about usage", "did not report how many tokens"),
        ("refuses", "429 Too Many Requests: .*too busy"),
    ],
)
def test_a_failed_request_is_counted_reported_and_left_out(ends, sentence, capsys):
    server = FakeServer(first=0.0, gap=0.0, ends=ends, only_every=3)
    status, result, lines = bench(server, capsys, "--num-prompts", "8", "--random-output-len", "4")
    assert status == 1 and result["failed"] == 3 and result["completed"] == 5
    assert result["total_output_tokens"] == 20

    assert len([line for line in lines if re.match(rf"A request failed: .*{sentence}", line)]) == 3


# ---- arrivals and numbers ----


def test_arrivals_are_a_poisson_process_of_the_given_rate_and_seed():
    times = arrival_times(4000, 8.0, seed=3)
    gaps = np.diff([0.0, *times])
    assert times[-1] == pytest.approx(500.0) and np.mean(gaps) == pytest.approx(1 / 8)
    assert np.std(gaps) == pytest.approx(1 / 8, rel=0.1)  # as in an exponential distribution
    assert np.mean(gaps > 1 / 8) == pytest.approx(math.exp(-1), abs=0.03)
    assert times == arrival_times(4000, 8.0, seed=3) != arrival_times(4000, 8.0, seed=4)
    assert arrival_times(3, math.inf, seed=0) == [0.0, 0.0, 0.0]


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
    assert result["mean_ttft_ms"] == pytest.approx(200)
    assert result["median_ttft_ms"] == pytest.approx(200)
    assert result["mean_tpot_ms"] == pytest.approx(statistics.mean([300, 1100]))
    assert result["mean_itl_ms"] == pytest.approx(statistics.mean([200, 400, 1100]))
    assert result["p99_ttft_ms"] == pytest.approx(298)
    # In seconds from the first start: messages at .1 .3 .7 | .8 | 1.4 2.5; running: 2, then 1, then
    # 1.
    assert result["max_output_tokens_per_s"] == 4 and result["max_concurrent_requests"] == 2


@pytest.mark.parametrize(
    "options",
    [
        ["--request-rate", "0"],
        ["--request-rate", "nan"],
        ["--num-prompts", "0"],
        ["--metric-percentiles", "50,101"],
    ],
)
def test_an_option_out_of_range_is_refused_before_anything_is_sent(
    options: list[str], capsys
) -> None:
    assert main(["bench", "serve", *options]) == 2
    assert "must be" in capsys.readouterr().err
