"""The server as `minivllm serve` assembles it: requests, events, KV events, metrics and faults."""

import errno
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx2
import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.patience import FOREVER
from support.server.live_server import GatedRunner, LiveServer, deaf_client, serving, wait_for
from support.tui.polled_sources import all_events, poll_until

from minivllm.core.request import Sequence
from minivllm.errors import EventLogError, SamplingError
from minivllm.events import types as ev
from minivllm.events.vllm_kv_wire import KVEvent
from minivllm.server.feeds import event_hub
from minivllm.server.metrics import router
from minivllm.tui.sources import event_stream
from minivllm.tui.sources.http_source import HttpSource
from minivllm.tui.vllm.source import VllmSource

PROMPTS = [
    "The capital of France is",
    "The largest planet in our solar system is",
    "To be or not to be, that is",
]


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_stream, "FIRST_DELAY", 0.02)
    monkeypatch.setattr(event_hub, "SECONDS_BETWEEN_LOOKS", 0.005)
    monkeypatch.setattr(event_hub, "LAST_SECONDS", 0.1)


def post(live: LiveServer, body: dict, path: str = "/v1/completions") -> httpx2.Response:
    with live.http() as http:
        return http.post(path, json={"max_tokens": 10} | body)


# ---- events and metrics ----


def test_three_generate_requests_at_once_share_forward_passes():
    with serving(events=True) as live, ThreadPoolExecutor(3) as pool:
        source = HttpSource(live.url)
        live.runner.gate.clear()
        body = {"n": 1, "use_beam_search": False, "temperature": 0.7, "max_tokens": 10}
        answers = [
            pool.submit(post, live, {**body, "prompt": prompt}, "/generate") for prompt in PROMPTS
        ]
        wait_for(lambda: live.service.num_unfinished == 3)
        live.runner.gate.set()
        assert [answer.result().status_code for answer in answers] == [200] * 3
        poll_until(source, lambda: len(source.recording) == len(live.events))
        together: dict[int, set[str]] = {}
        for event in all_events(source):
            if isinstance(event, ev.TokenSampled):
                together.setdefault(event.step, set()).add(event.seq_id)
        assert sum(len(sequences) == 3 for sequences in together.values()) >= 8
        assert source.recording.head.state == live.engine.inspect()
        source.close()


def test_events_are_sent_only_if_enabled_and_only_with_the_key(monkeypatch):
    with serving() as live, live.http() as http:
        assert http.get("/events").status_code == 404
        assert "/events" not in http.get("/openapi.json").json()["paths"]
        assert http.get("/metrics").status_code == 200
        with pytest.raises(EventLogError, match="minivllm serve --events"):
            HttpSource(live.url)
    with serving(api_key=("sk-1",), events=True) as live:
        with pytest.raises(EventLogError, match="VLLM_API_KEY"):
            HttpSource(live.url)
        monkeypatch.setenv("VLLM_API_KEY", "sk-1")
        source = HttpSource(live.url)
        assert source.status.state == "live"
        source.close()


def test_metrics_count_requests_under_the_served_model_name():
    with serving(served_model_name="org/name") as live:
        for prompt in PROMPTS:
            assert post(live, {"prompt": prompt}).status_code == 200
        assert post(live, {"model": "fake", "prompt": "x"}).status_code == 404
        with live.http() as http:
            assert http.get("/v1/models/org/name").status_code == 200
            lines = http.get("/metrics").text.splitlines()
        labels = '{engine="0",model_name="org/name"}'
        assert f"vllm:generation_tokens_total{labels} 30.0" in lines
        assert f"vllm:prompt_tokens_total{labels} {float(sum(map(len, PROMPTS)))}" in lines
        # And the screen for a real vLLM reads them.
        source = VllmSource(live.url, None)
        try:
            wait_for(lambda: source.poll() and source.view.scrape is not None)
            assert source.view.scrape.models == ("org/name",)
        finally:
            source.close()


# ---- the end, for watchers ----


def test_watchers_that_are_silent_or_do_not_read_do_not_delay_the_end():
    options = {"events": True, "send_buffer": 4096, "drain_timeout": FOREVER}
    with serving(**options) as live, deaf_client(live, "/events", {}, method="GET"):
        source = HttpSource(live.url)
        wait_for(lambda: live.hub.num_readers == 2)
        filling = {"prompt": "filling the buffers", "max_tokens": 100, "ignore_eos": True, "n": 8}
        for _ in range(12):
            post(live, filling)
        live.begin_exit()
        wait_for(live.loop_has_ended)
        assert live.hub.num_readers == 0
        source.close()


def test_the_death_of_the_engine_ends_the_event_stream_and_new_watchers_get_the_reason():
    with serving(events=True) as live, live.http() as http:
        source = HttpSource(live.url)
        live.runner.fail, live.runner.device_lost = RuntimeError("an illegal address"), True
        assert post(live, {"prompt": "x"}).status_code == 503
        poll_until(source, lambda: source.status.state != "live")
        poll_until(source, lambda: len(source.recording) == len(live.events))
        source.close()
        wait_for(lambda: live.hub.num_readers == 0)
        answer = http.get("/events")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_dead")
        assert http.get("/health").status_code == 503
        assert http.get("/metrics").status_code == 200


# ---- faults: one request pays ----


class PartlySick(GatedRunner):
    """Returns no token for a sequence whose prompt begins with `!`, once it has three."""

    def _sample(self, one: Sequence) -> object:
        if one.token_ids[0] == 1 and one.num_output_tokens >= 3:
            return SamplingError(f"No token can be sampled for {one.seq_id}: NaN.", one.seq_id)
        return super()._sample(one)


def bodies() -> Iterator[dict]:
    for i, stream in enumerate((False, True) * 3):
        yield {"prompt": f"{i} is fine", "stream": stream, "seed": 1, "max_tokens": 30}


def texts(answer: httpx2.Response) -> str:
    if "data: " not in answer.text:
        return answer.json()["choices"][0]["text"]
    chunks = [
        json.loads(line[6:]) for line in answer.text.split("\n\n") if line.startswith("data: {")
    ]
    return "".join(chunk["choices"][0]["text"] for chunk in chunks)


def test_a_request_that_fails_in_the_sampler_gets_an_error_and_the_others_their_texts():
    with serving() as live, ThreadPoolExecutor(8) as pool:
        wanted = [texts(post(live, body)) for body in bodies()]
        live.runner.__class__ = PartlySick
        free = live.num_free_blocks
        live.runner.gate.clear()
        good = [pool.submit(post, live, body) for body in bodies()]
        sick = [
            pool.submit(post, live, {"prompt": "!!", "stream": stream}) for stream in (False, True)
        ]
        wait_for(lambda: live.service.num_unfinished == 8)
        live.runner.gate.set()
        assert [texts(answer.result()) for answer in good] == wanted
        failed, streamed = (answer.result() for answer in sick)
        assert (failed.status_code, failed.json()["error"]["code"]) == (500, "request_failed")
        *_, error, end = [line for line in streamed.text.split("\n\n") if line]
        assert json.loads(error.removeprefix("data: "))["error"]["code"] == "request_failed"
        assert end == "data: [DONE]"
        live.wait_until_idle()
        assert live.num_free_blocks == free
        with live.http() as http:
            assert http.get("/health").status_code == 200
        assert live.service.num_waiting == 0


def test_a_feed_on_a_full_disk_is_closed_and_the_engine_goes_on(monkeypatch, caplog):
    class FullDisk:
        calls = 0

        def publish(self, ts: float, events: list[KVEvent]) -> None:
            self.calls += 1
            if self.calls > 1:
                raise OSError(errno.ENOSPC, "No space left on device")

    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(router.APPLY, ev.TokenSampled, full)
    disk = FullDisk()
    with serving(kv_sink=disk, events=True) as live, live.http() as http:
        source = HttpSource(live.url)
        assert post(live, {"prompt": "before"}).json()["usage"]["completion_tokens"] == 10
        poll_until(source, lambda: len(source.recording) == len(live.events))
        live.hub._ring._slots = None  # the ring raises from now on
        for _ in range(2):
            assert post(live, {"prompt": "after"}).json()["usage"]["completion_tokens"] == 10
        for path in ("/events", "/metrics"):
            refused = http.get(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "feed_lost")
        assert http.get("/health").status_code == 200
        source.close()
    assert disk.calls == 2
    closed = [record.fields["feed"] for record in caplog.records if "is closed" in record.message]
    assert sorted(closed) == ["KV events", "events", "metrics"], "each once"


def test_http_requests_are_counted_by_route_status_and_method_and_unknown_paths_add_no_labels():
    with serving() as live, live.http() as http:
        for prompt in ("a", "b", ""):
            http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 1})
        for i in range(5):
            http.request(f"ODD{i}", f"/nowhere-{i}")
        http.get("/v1/models/unknown-name")
        http.get("/health")
        text = http.get("/metrics").text
    families = {one.name: one for one in text_string_to_metric_families(text)}
    counted = {
        (one.labels["handler"], one.labels["status"], one.labels["method"]): one.value
        for one in families["http_requests"].samples
        if one.name == "http_requests_total"
    }
    models = next(handler for handler, *_ in counted if handler.startswith("/v1/models/{"))
    assert counted == {
        ("/v1/completions", "2xx", "POST"): 2,
        ("/v1/completions", "4xx", "POST"): 1,
        ("none", "4xx", "other"): 5,
        (models, "4xx", "GET"): 1,
    }
    assert families["process_resident_memory_bytes"].samples[0].value > 1e6
    assert families["process_open_fds"].samples[0].value > 3
