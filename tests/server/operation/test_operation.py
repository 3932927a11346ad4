"""What a server must survive: disconnects, overload, slow requests, shutdown and engine errors."""

import json
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
import pytest
from support.patience import FOREVER, SOON
from support.server.in_process import in_process
from support.server.live_server import LiveServer, error_of, fake_engine, wait_for

from minivllm.core.request import Sequence
from minivllm.errors import SamplingError
from minivllm.events import types as ev

COMPLETIONS = "/v1/completions"
LONG = {"prompt": "a long story", "max_tokens": 150, "ignore_eos": True}


def stream_events(response: httpx2.Response) -> list:
    *lines, done, end = response.text.split("\n\n")
    assert (done, end) == ("data: [DONE]", "")
    return [json.loads(line.removeprefix("data: ")) for line in lines]


@contextmanager
def at_the_gate(live: LiveServer, *bodies: dict, path: str = COMPLETIONS):
    """Yield the answers to come of requests that all wait for the engine's next step."""
    live.gate.close()
    with ThreadPoolExecutor(max(len(bodies), 1)) as pool:
        answers: list[Future[httpx2.Response]] = []
        for body in bodies:  # one after the other, so that they arrive in this order
            answers.append(pool.submit(live.post, path, body))
            wait_for(lambda: live.service.num_unfinished == len(answers))
        wait_for(lambda: live.gate.holds)
        try:
            yield answers
        finally:
            live.gate.open()


@pytest.mark.parametrize("path", [COMPLETIONS, "/v1/chat/completions", "/generate"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_blocks_of_a_disconnected_client_are_freed_within_one_step(path, stream):
    prompt = {"messages": [{"role": "user", "content": "x"}]} if "chat" in path else {"prompt": "x"}
    with in_process() as live:
        free = live.num_free_blocks
        live.gate.open(3)
        body = prompt | {"max_tokens": 100, "ignore_eos": True, "n": 2, "stream": stream}
        asked = live.transport.ask("POST", path, body)
        if stream:
            assert asked.response().status_code == 200
        wait_for(lambda: live.gate.holds)
        assert live.num_free_blocks < free
        asked.leave()
        # The server notices during the step at the gate; after that there must be no other step.
        wait_for(lambda: live.service.num_unfinished == 0)
        live.gate.open()
        live.wait_until_idle()
        assert live.gate.num_steps == 4
        assert {event.seq_id[-2:] for event in live.events_of(ev.RequestAborted)} == {".0", ".1"}
        assert live.num_free_blocks == free
        asked.ended.result(SOON)


def test_a_full_queue_says_when_to_come_back_and_takes_lists_whole_or_not_at_all():
    bodies = [{"prompt": f"w{i}", "max_tokens": 4} for i in range(3)]
    with in_process(fake_engine(max_num_seqs=1), max_waiting_requests=3) as live:
        with at_the_gate(live, *bodies) as answers, ThreadPoolExecutor(1) as pool:
            wait_for(lambda: live.service.num_waiting == 2)
            refused = live.post(COMPLETIONS, {"prompt": ["one", "too many"], "max_tokens": 4})
            assert error_of(refused) == (429, "queue_full")
            assert int(refused.headers["retry-after"]) >= 1
            assert live.service.num_waiting == 2
            answers.append(pool.submit(live.post, COMPLETIONS, {"prompt": "fits"}))
            wait_for(lambda: live.service.num_waiting == 3)
            assert live.post(COMPLETIONS, {"prompt": "x", "stream": True}).status_code == 429
            live.gate.open()
            assert [answer.result().status_code for answer in answers] == [200] * 4
        assert live.service.num_waiting == 0


def test_a_request_that_takes_too_long_ends_with_an_error():
    with in_process(request_timeout=0.3) as live:
        free = live.num_free_blocks
        for stream in (False, True):
            live.gate.open(3)
            late = live.post(COMPLETIONS, LONG | {"stream": stream})
            if stream:
                *chunks, last = stream_events(late)
                assert len(chunks) >= 2 and last["error"]["code"] == "request_timeout"
            else:
                assert error_of(late) == (504, "request_timeout")
            live.gate.open()
            live.wait_until_idle()
        assert live.num_free_blocks == free


def test_the_time_limit_includes_tokenization():
    chat = {"messages": [{"role": "user", "content": "x"}]}
    with in_process(request_timeout=0.1) as live:
        encode, gate = live.engine.tokenizer.encode, live.gate
        gate.close()  # held in the tokenizer, as later in a step
        live.engine.tokenizer.encode = lambda *given: gate(None, None) or encode(*given)
        for path, body in ((COMPLETIONS, {"prompt": "x"}), ("/v1/chat/completions", chat)):
            assert error_of(live.post(path, body)) == (504, "request_timeout")


def test_a_drain_lets_running_requests_finish_and_takes_no_new_ones():
    with in_process() as live:
        with at_the_gate(live, LONG, LONG | {"stream": True}) as (running, streaming):
            live.loop.call_soon_threadsafe(live.service.begin_drain, FOREVER)
            wait_for(lambda: live.service.is_draining)
            assert error_of(live.post(COMPLETIONS, LONG)) == (503, "shutting_down")
            with live.http() as http:
                assert http.get("/health").status_code == 503
        assert running.result().json()["usage"]["completion_tokens"] == 150
        assert stream_events(streaming.result())[-1]["choices"][0]["finish_reason"] == "length"


def test_requests_that_a_drain_does_not_wait_for_get_the_reason():
    bodies = LONG, LONG | {"stream": True}
    with in_process() as live, at_the_gate(live, *bodies) as (whole, streamed):
        live.gate.open(5)
        wait_for(lambda: live.gate.num_steps == 5)
        live.loop.call_soon_threadsafe(live.service.begin_drain, 0.0)
        assert error_of(whole.result()) == (503, "shutting_down")
        assert stream_events(streamed.result())[-1]["error"]["code"] == "shutting_down"


def test_an_unknown_error_fails_one_request_and_reveals_no_secret(monkeypatch):
    def broken(*given: object) -> list[int]:
        raise RuntimeError("the tokenizer broke at /secret/path")

    with in_process() as live:
        with monkeypatch.context() as patch:
            patch.setattr(live.engine.tokenizer, "encode", broken)
            failed = live.post(COMPLETIONS, {"prompt": "x"})
        assert error_of(failed) == (500, "internal_error")
        assert "secret" not in failed.text and failed.headers["x-request-id"]
        assert live.post(COMPLETIONS, {"prompt": "fine", "max_tokens": 2}).status_code == 200


def test_the_clients_request_id_is_in_the_answer_and_in_the_events():
    with in_process() as live, live.http() as http:
        http.headers["X-Request-Id"] = "my-req-1"
        for path, prefix, body in (
            (COMPLETIONS, "cmpl", {"prompt": ["a", "b"]}),
            ("/v1/chat/completions", "chatcmpl", {"messages": [{"role": "user", "content": "a"}]}),
            ("/generate", "gen", {"prompt": "a"}),
        ):
            live.events.clear()
            answers = [http.post(path, json=body | {"max_tokens": 1}) for _ in range(2)]
            assert [answer.headers["x-request-id"] for answer in answers] == ["my-req-1"] * 2
            arrived = [event.request_id for event in live.events_of(ev.RequestArrived)]
            assert all(request_id.startswith(f"{prefix}-my-req-1-") for request_id in arrived)
            assert len(set(arrived)) == len(arrived), "equal ids would draw the same samples"
            for answer in answers:
                mine = prefix == "gen" or answer.json()["id"]
                assert mine is True or any(request_id.startswith(mine) for request_id in arrived)


def test_priority_decides_who_goes_first_where_the_policy_says_so():
    bodies = [{"prompt": "x", "max_tokens": 3, "priority": priority} for priority in (-9, 5, 1)]
    with in_process(fake_engine(max_num_seqs=1, scheduling_policy="priority")) as live:
        with at_the_gate(live, *bodies) as answers:
            pass
        assert [answer.result().status_code for answer in answers] == [200] * 3
        arrived = {event.seq_id: event.priority for event in live.events_of(ev.RequestArrived)}
        assert [arrived[event.seq_id] for event in live.events_of(ev.RequestAdmitted)] == [-9, 1, 5]


def test_special_tokens_are_added_unless_the_client_writes_its_own():
    with in_process() as live:
        encoded: list[tuple[str, bool]] = []
        encode = live.engine.tokenizer.encode
        live.engine.tokenizer.encode = lambda *given: encoded.append(given) or encode(*given)
        for special in (True, False):
            live.post(COMPLETIONS, {"prompt": "x", "add_special_tokens": special})
        assert encoded == [("x", True), ("x", False)]


def test_a_tenant_with_its_own_salt_cannot_detect_another_tenants_prompts():
    def cached(salt: str | None) -> int:
        body = {"prompt": "The password is 1234. " * 4, "max_tokens": 1, "cache_salt": salt}
        usage = live.post(COMPLETIONS, body).json()["usage"]
        return usage["prompt_tokens_details"]["cached_tokens"]

    with in_process() as live:
        assert cached("tenant a, secret") == 0 < cached("tenant a, secret")
        assert cached("tenant b, secret") == cached(None) == 0


def text_of(answer: httpx2.Response) -> str:
    if not answer.text.startswith("data: "):
        return answer.json()["choices"][0]["text"]
    return "".join(chunk["choices"][0]["text"] for chunk in stream_events(answer))


def test_a_request_that_fails_in_the_sampler_gets_an_error_and_the_others_their_texts():
    def draw(sequence: Sequence) -> object:
        if sequence.token_ids[0] == 1 and sequence.num_output_tokens >= 3:  # `!`
            return SamplingError(f"No token for {sequence.seq_id}: NaN.", sequence.seq_id)
        return live.runner.sample(sequence)

    good = [{"prompt": f"{i} is fine", "stream": i % 2 == 0, "seed": 1} for i in range(6)]
    sick = [{"prompt": "!!", "stream": stream} for stream in (False, True)]
    with in_process() as live:
        wanted = [text_of(live.post(COMPLETIONS, body)) for body in good]
        live.runner.draw, free = draw, live.num_free_blocks
        with at_the_gate(live, *good, *sick) as answers:
            pass
        *texts, failed, streamed = (answer.result() for answer in answers)
        assert [text_of(answer) for answer in texts] == wanted
        assert error_of(failed) == (500, "request_failed")
        assert stream_events(streamed)[-1]["error"]["code"] == "request_failed"
        live.wait_until_idle()
        assert live.num_free_blocks == free and live.service.num_waiting == 0
