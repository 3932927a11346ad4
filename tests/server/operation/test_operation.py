"""What a server must survive: disconnects, overload, slow clients, shutdown and engine errors."""

import json
import random
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import httpx2
import pytest
from support.patience import SOON
from support.server.live_server import LiveServer, deaf_client, fake_engine, serving, wait_for

from minivllm.events import types as ev

LONG = {"prompt": "a long story", "max_tokens": 150, "ignore_eos": True, "stream": False}


def post(
    live: LiveServer, body: dict, path: str = "/v1/completions", timeout: float = SOON
) -> httpx2.Response:
    with live.http() as http:
        return http.post(path, json=body, timeout=timeout)


def error_of(response: httpx2.Response) -> dict:
    error = response.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert 10 < len(error["message"]) < 600
    assert "/" not in error["message"].replace("/openapi.json", "")
    assert "Traceback" not in error["message"]
    return error


def stream_events(text: str) -> list:
    lines = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert lines[-1] == "[DONE]"
    return [json.loads(line) for line in lines[:-1]]


@pytest.mark.parametrize("path", ["/v1/completions", "/generate"])
@pytest.mark.parametrize("stream", [False, True])
def test_the_blocks_of_a_disconnected_client_are_freed_within_one_step(path, stream):
    with serving() as live:
        free = live.num_free_blocks
        live.runner.seconds_per_step = 0.002
        with live.http() as http:
            request = http.build_request("POST", path, json=LONG | {"stream": stream, "n": 2})
            if stream:
                response = http.send(request, stream=True)
                pieces = response.iter_raw()
                next(pieces)
                live.runner.gate.clear()
                assert live.runner.entered.wait(SOON)
                response.close()
            else:
                live.runner.gate.clear()
                with deaf_client(live, path, LONG | {"n": 2}):
                    assert live.runner.entered.wait(SOON)
            # The server notices during the step at the gate; after that there must be no other
            # step.
            wait_for(lambda: live.service.num_unfinished == 0)
            steps = live.runner.num_steps
            live.runner.gate.set()
            live.wait_until_idle()
        assert live.runner.num_steps == steps + 1
        assert {event.seq_id[-2:] for event in live.events_of(ev.RequestAborted)} == {".0", ".1"}
        assert live.num_free_blocks == free


def test_a_hundred_clients_that_disconnect_at_random_times_leave_nothing_behind():
    rng = random.Random(0)
    with serving(max_waiting_requests=1000) as live:
        free = live.num_free_blocks
        live.runner.seconds_per_step = 0.001

        def come_and_go(_: int) -> None:
            body, patience = LONG | {"stream": rng.random() < 0.5}, rng.uniform(0.001, 0.1)
            with (
                live.http(timeout=patience) as http,
                suppress(httpx2.TimeoutException),
                http.stream("POST", "/v1/completions", json=body) as answer,
            ):
                for _ in answer.iter_raw():
                    if rng.random() < 0.2:
                        return

        with ThreadPoolExecutor(20) as pool:
            list(pool.map(come_and_go, range(100)))
        live.wait_until_idle()
        assert live.num_free_blocks == free
        assert live.service.num_waiting == 0
        assert post(live, {"prompt": "still there?", "max_tokens": 3}).status_code == 200
        assert live.engine.inspect().requests == {}
        wait_for(lambda: not live.server.server_state.tasks)


def test_a_full_queue_says_when_to_come_back_and_takes_lists_whole_or_not_at_all():
    with (
        serving(fake_engine(max_num_seqs=1), max_waiting_requests=3) as live,
        ThreadPoolExecutor(4) as pool,
    ):
        live.runner.gate.clear()
        running = pool.submit(post, live, {"prompt": "first", "max_tokens": 4})
        wait_for(lambda: len(live.events_of(ev.RequestAdmitted)) == 1)
        assert live.service.num_waiting == 0
        waiting = [pool.submit(post, live, {"prompt": f"w{i}", "max_tokens": 4}) for i in range(2)]
        wait_for(lambda: live.service.num_waiting == 2)
        refused = post(live, {"prompt": ["one", "too many"], "max_tokens": 4})
        assert (refused.status_code, error_of(refused)["code"]) == (429, "queue_full")
        assert int(refused.headers["retry-after"]) >= 1
        assert live.service.num_waiting == 2
        waiting.append(pool.submit(post, live, {"prompt": "fits", "max_tokens": 4}))
        wait_for(lambda: live.service.num_waiting == 3)
        assert post(live, {"prompt": "x", "stream": True}).status_code == 429
        live.runner.gate.set()
        assert [answer.result().status_code for answer in [running, *waiting]] == [200] * 4
        assert live.service.num_waiting == 0


def test_a_request_that_takes_too_long_ends_with_an_error():
    with serving(request_timeout=1.0) as live:
        free = live.num_free_blocks
        live.runner.seconds_per_step = 0.02
        late = post(live, LONG)
        assert (late.status_code, error_of(late)["code"]) == (504, "request_timeout")
        *chunks, last = stream_events(post(live, LONG | {"stream": True}).text)
        assert len(chunks) >= 3
        assert last["error"]["code"] == "request_timeout"
        live.wait_until_idle()
        assert live.num_free_blocks == free


def test_a_drain_lets_running_requests_finish_and_takes_no_new_ones():
    with serving(drain_timeout=SOON) as live, ThreadPoolExecutor(2) as pool, live.http() as kept:
        assert kept.get("/health").status_code == 200
        live.runner.gate.clear()
        running = pool.submit(post, live, LONG)
        streaming = pool.submit(post, live, LONG | {"stream": True})
        wait_for(lambda: live.service.num_unfinished == 2)
        live.loop.call_soon_threadsafe(live.service.begin_drain, SOON)
        wait_for(lambda: live.service.is_draining)
        refused = kept.post("/v1/completions", json=LONG)
        assert (refused.status_code, error_of(refused)["code"]) == (503, "shutting_down")
        assert kept.get("/health").status_code == 503
        live.begin_exit()
        live.runner.gate.set()
        assert running.result().json()["usage"]["completion_tokens"] == 150
        assert stream_events(streaming.result().text)[-1]["choices"][0]["finish_reason"] == "length"


def test_a_tokenizer_error_fails_one_request_and_reveals_no_secret():
    with serving() as live:
        failed = post(live, {"prompt": "\x7f"})
        assert (failed.status_code, error_of(failed)["code"]) == (500, "internal_error")
        assert "secret" not in failed.text
        assert failed.headers["x-request-id"]
        assert post(live, {"prompt": "fine", "max_tokens": 2}).status_code == 200


def test_the_clients_request_id_is_in_the_answer_and_in_the_events():
    with serving() as live, live.http() as http:
        http.headers["X-Request-Id"] = "my-req-1"
        for path, prefix, body in (
            ("/v1/completions", "cmpl", {"prompt": ["a", "b"]}),
            ("/v1/chat/completions", "chatcmpl", {"messages": [{"role": "user", "content": "a"}]}),
            ("/generate", "gen", {"prompt": "a"}),
        ):
            live.events.clear()
            answers = [http.post(path, json=body | {"max_tokens": 1}) for _ in range(2)]
            assert [answer.headers["x-request-id"] for answer in answers] == ["my-req-1"] * 2
            arrived = [event.request_id for event in live.events_of(ev.RequestArrived)]
            assert all(one.startswith(f"{prefix}-my-req-1-") for one in arrived)
            assert len(set(arrived)) == len(arrived), (
                "two requests with one id would draw the same samples"
            )
            for answer in answers:
                assert prefix == "gen" or any(
                    one.startswith(answer.json()["id"]) for one in arrived
                )


def test_priority_decides_who_goes_first_where_the_policy_says_so():
    engine = fake_engine(max_num_seqs=1, scheduling_policy="priority")
    with serving(engine) as live, ThreadPoolExecutor(3) as pool:
        live.runner.gate.clear()
        answers = [pool.submit(post, live, {"prompt": "running", "max_tokens": 3, "priority": -9})]
        wait_for(lambda: len(live.events_of(ev.RequestAdmitted)) == 1)
        for number, priority in enumerate((5, 1), 2):
            body = {"prompt": f"p{priority}", "max_tokens": 3, "priority": priority}
            answers.append(pool.submit(post, live, body))
            wait_for(lambda number=number: live.service.num_unfinished == number)
        live.runner.gate.set()
        assert [answer.result().status_code for answer in answers] == [200] * 3
        arrived = {event.seq_id: event.priority for event in live.events_of(ev.RequestArrived)}
        assert [arrived[event.seq_id] for event in live.events_of(ev.RequestAdmitted)] == [-9, 1, 5]


def test_a_list_is_refused_at_its_first_impossible_prompt_and_queues_none_of_them():
    with serving() as live:
        encoded: list[str] = []
        encode = live.service.tokenizer.encode
        live.service.tokenizer.encode = lambda text, *args: (
            encoded.append(text) or encode(text, *args)
        )
        refused = post(live, {"prompt": ["fits", *["x" * 200] * 60]})
        assert (refused.status_code, error_of(refused)["code"]) == (400, "context_length_exceeded")
        assert live.events == [] and len(encoded) == 2
