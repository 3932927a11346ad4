"""What the whole server counts and feeds, and what stays alive when a feed fails."""

import errno
import logging

from prometheus_client.parser import text_string_to_metric_families
from support.server.in_process import in_process

from minivllm.events import types as ev
from minivllm.server.metrics import router


def test_metrics_count_requests_under_the_served_model_name():
    with in_process(served_model_name="org/name") as live, live.http() as http:
        for prompt in ("one", "and two"):
            assert live.post("/v1/completions", {"prompt": prompt, "max_tokens": 10}).is_success
        assert live.post("/v1/completions", {"model": "fake", "prompt": "x"}).status_code == 404
        assert http.get("/v1/models/org/name").status_code == 200
        assert http.get("/events").status_code == 404, "events are sent only if enabled"
        lines = http.get("/metrics").text.splitlines()
    labels = '{engine="0",model_name="org/name"}'
    assert f"vllm:generation_tokens_total{labels} 20.0" in lines
    assert f"vllm:prompt_tokens_total{labels} 10.0" in lines


def test_http_requests_are_counted_by_route_status_and_method_and_unknown_paths_add_no_labels():
    with in_process() as live, live.http() as http:
        for prompt in ("a", "b", ""):
            http.post("/v1/completions", json={"prompt": prompt, "max_tokens": 1})
        for i in range(5):
            http.request(f"ODD{i}", f"/nowhere-{i}")
        http.get("/v1/models/unknown-name")
        http.get("/health")
        text = http.get("/metrics").text
    families = {family.name: family for family in text_string_to_metric_families(text)}
    counted = {
        (sample.labels["handler"], sample.labels["status"], sample.labels["method"]): sample.value
        for sample in families["http_requests"].samples
        if sample.name == "http_requests_total"
    }
    models = next(handler for handler, *_ in counted if handler.startswith("/v1/models/{"))
    assert counted == {
        ("/v1/completions", "2xx", "POST"): 2,
        ("/v1/completions", "4xx", "POST"): 1,
        ("none", "4xx", "other"): 5,
        (models, "4xx", "GET"): 1,
    }
    assert families["process_resident_memory_bytes"].samples[0].value > 1e6


def test_each_request_is_logged_with_its_status_its_tokens_and_its_time_in_the_queue(caplog):
    caplog.set_level(logging.INFO, "minivllm.server")
    body = {"prompt": "hello", "max_tokens": 4}
    with in_process() as live:
        for more in ({}, {"stream": True}, {"prompt": ""}):
            live.post("/v1/completions", body | more)
        live.post("/generate", body | {"n": 2})
    told = [record.fields for record in caplog.records if record.getMessage() == "request"]
    names = "status", "prompt_tokens", "completion_tokens"
    expected = [(200, 5, 4), (200, 5, 4), (400, None, None), (200, 5, 8)]
    assert [tuple(map(line.get, names)) for line in told] == expected
    assert ["queue_seconds" in line for line in told] == [True, True, False, True]
    assert all(0 <= line.get("queue_seconds", 0) <= line["seconds"] for line in told)


def test_a_feed_on_a_full_disk_is_closed_and_the_engine_goes_on(monkeypatch, caplog):
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setitem(router.APPLY, ev.TokenSampled, full)
    body = {"prompt": "a prompt", "max_tokens": 10}
    with in_process(events=True) as live, live.http() as http:
        live.hub._ring._slots = None  # the ring raises
        for _ in range(3):
            answer = live.post("/v1/completions", body)
            assert answer.json()["usage"]["completion_tokens"] == 10
        for path in ("/events", "/metrics"):
            refused = http.get(path)
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "feed_lost")
        assert http.get("/health").status_code == 200
    closed = [record.fields["feed"] for record in caplog.records if "is closed" in record.message]
    assert sorted(closed) == ["events", "metrics"], "each once"
