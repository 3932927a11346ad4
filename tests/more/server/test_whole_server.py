"""The server as `minivllm serve` assembles it, on a port: its own and the dashboard's clients."""

import json
import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from support.patience import FOREVER
from support.server.live_server import deaf_client, serving, wait_for
from support.tui.polled_sources import all_events, poll_until

from minivllm.config import EngineConfig
from minivllm.engine.engine import LLMEngine
from minivllm.events import types as ev
from minivllm.runtime.loader import load_model
from minivllm.server import run
from minivllm.server.feeds import event_hub
from minivllm.tui.sources import event_stream
from minivllm.tui.sources.http_source import HttpSource

LAB = Path(__file__).resolve().parents[3] / "docs/teach/lab-3h.md"
PROMPTS = ["The capital of France is", "The largest planet is", "To be or not to be, that is"]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "FIRST_DELAY", 0.02)
    monkeypatch.setattr(event_hub, "SECONDS_BETWEEN_LOOKS", 0.005)
    monkeypatch.setattr(run, "SECONDS_BETWEEN_LOOKS", 0.05)


def test_three_generate_requests_at_once_share_forward_passes():
    with serving(events=True) as live, ThreadPoolExecutor(3) as pool:
        source = HttpSource(live.url)
        live.gate.close()
        body = {"n": 1, "use_beam_search": False, "temperature": 0.7, "max_tokens": 10}
        answers = [
            pool.submit(live.post, "/generate", {**body, "prompt": prompt}) for prompt in PROMPTS
        ]
        wait_for(lambda: live.service.num_unfinished == 3)
        live.gate.open()
        assert [answer.result().status_code for answer in answers] == [200] * 3
        poll_until(source, lambda: len(source.recording) == len(live.events))
        together: dict[int, set[str]] = {}
        for event in all_events(source):
            if isinstance(event, ev.TokenSampled):
                together.setdefault(event.step, set()).add(event.seq_id)
        assert sum(len(sequences) == 3 for sequences in together.values()) >= 8
        assert source.recording.head.state == live.engine.inspect()
        source.close()
        wait_for(lambda: live.hub.num_readers == 0)


def test_the_request_of_the_three_hour_lab_gets_all_tokens_that_it_asks_for():
    body = re.search(r"/generate -d '(.*)'", LAB.read_text(encoding="utf-8"))[1]
    config = EngineConfig(model="house", num_gpu_blocks_override=400, device="cpu")
    engine = LLMEngine.from_model(config, load_model(config))
    with serving(engine) as live, live.http() as http:
        assert http.post("/generate", content=body).status_code == 200
        lines = http.get("/metrics").text.splitlines()
    (total,) = (line for line in lines if line.startswith("vllm:generation_tokens_total"))
    assert float(total.rpartition(" ")[2]) == json.loads(body)["max_tokens"] == 1000


def test_watchers_that_are_silent_or_do_not_read_do_not_delay_the_end():
    options = {"events": True, "send_buffer": 4096, "drain_timeout": FOREVER}
    with serving(**options) as live, deaf_client(live, "/events", {}, method="GET"):
        source = HttpSource(live.url)
        wait_for(lambda: live.hub.num_readers == 2)
        filling = {"prompt": "filling the buffers", "max_tokens": 100, "ignore_eos": True, "n": 8}
        for _ in range(12):
            live.post("/v1/completions", filling)
        live.begin_exit()
        wait_for(lambda: not live.loop.is_running())
        assert live.hub.num_readers == 0
        source.close()
