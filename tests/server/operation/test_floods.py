"""Many large requests and unread answers: memory stays bounded, small requests do not wait."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import httpx2
from support.patience import SOON
from support.server.live_server import LiveServer, deaf_client, serving, wait_for

from minivllm.server import workers
from minivllm.server.http import body_limit, connections
from minivllm.server.http.body_limit import HeldBodies
from minivllm.server.routers import completions

LARGE = 90_000


@contextmanager
def long_texts_held(live: LiveServer, number: int) -> Iterator[list[Future[httpx2.Response]]]:
    """`number` long texts whose tokenization lasts until the block ends."""
    tokenizer = live.service.tokenizer
    encode, gate, entered = tokenizer.encode, threading.Event(), threading.Semaphore(0)

    def held(text: str, *args: object) -> list[int]:
        if len(text) > 1000:
            entered.release()
            gate.wait(30)
        return encode(text, *args)

    tokenizer.encode = held
    with live.http() as http, ThreadPoolExecutor(number) as pool:
        asked = [
            pool.submit(http.post, "/tokenize", json={"prompt": "x" * LARGE}) for _ in range(number)
        ]
        try:
            assert entered.acquire(timeout=10)
            wait_for(lambda: len(live.server.server_state.tasks) == number)
            yield asked
        finally:
            gate.set()


def test_a_short_prompt_does_not_wait_for_long_texts():
    messages = [{"role": "user", "content": "x"}]
    with serving() as live, long_texts_held(live, 4) as long, live.http() as http:
        for path, body in (
            ("/v1/completions", {"prompt": "x", "max_tokens": 2}),
            ("/v1/chat/completions", {"messages": messages}),
        ):
            assert http.post(path, json=body).status_code == 200
        assert not any(one.done() for one in long)
    assert [one.result().status_code for one in long] == [200] * 4


def test_a_chat_template_that_does_not_end_delays_only_other_chats():
    gate, messages = threading.Event(), [{"role": "user", "content": "x"}]
    with serving() as live, live.http() as http, ThreadPoolExecutor(6) as pool:
        tokenizer = live.service.tokenizer
        render = tokenizer.apply_chat_template
        tokenizer.apply_chat_template = lambda *given: gate.wait(SOON) and render(*given)
        chats = [
            pool.submit(http.post, path, json={"messages": messages})
            for path in ("/v1/chat/completions", "/tokenize") * 3
        ]
        wait_for(lambda: len(live.server.server_state.tasks) == len(chats))
        for path in ("/v1/completions", "/tokenize"):
            assert http.post(path, json={"prompt": "x"}).status_code == 200
        assert not any(one.done() for one in chats)
        gate.set()
        assert [one.result().status_code for one in chats] == [200] * 6


def test_large_bodies_beyond_a_total_are_refused_and_small_ones_pass(monkeypatch):
    monkeypatch.setattr(body_limit, "BODIES_TOGETHER", 2)
    with serving(max_body_bytes=100_000) as live, live.http() as http:
        with long_texts_held(live, 2):
            refused = http.post("/tokenize", json={"prompt": "y" * LARGE})
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
            assert refused.headers["retry-after"] == "1"
            assert http.post("/tokenize", json={"prompt": "x" * 1000}).status_code == 200
        live.wait_until_idle()
        wait_for(lambda: not live.server.server_state.tasks)
        assert http.post("/tokenize", json={"prompt": "y" * LARGE}).status_code == 200


def test_a_body_returns_its_bytes_however_it_ends(monkeypatch):
    counted: list[HeldBodies] = []

    class Counted(HeldBodies):
        def __init__(self, *args: object) -> None:
            super().__init__(*args)
            counted.append(self)

    monkeypatch.setattr(body_limit, "HeldBodies", Counted)
    with serving(max_body_bytes=100_000, body_timeout=0.2) as live, live.http() as http:
        (held,) = counted
        for content in (b"{}", b"x" * 99_000, b"x" * 100_001, b'{"prompt": "\xff"}'):
            http.post("/tokenize", content=content, headers={"Content-Type": "application/json"})
        with http.stream("POST", "/v1/completions", json={"prompt": "x", "stream": True}):
            pass
        host = live.url.removeprefix("http://").rpartition(":")
        for head in (
            b"Content-Length: 5000\r\n\r\nabc",
            b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n",
        ):
            with socket.create_connection((host[0], int(host[2]))) as client:
                client.sendall(b"POST /generate HTTP/1.1\r\nHost: localhost\r\n" + head)
                client.settimeout(10)
                client.recv(1000)
        wait_for(lambda: held.num_bytes == 0 and not live.server.server_state.tasks)


def test_unread_answers_are_cut_off_when_their_total_is_too_large(monkeypatch):
    monkeypatch.setattr(connections, "MAX_UNREAD_BYTES", 500_000)
    with serving(send_buffer=4096) as live, ExitStack() as stack:
        for _ in range(8):
            stack.enter_context(deaf_client(live, "/tokenize", {"prompt": "x" * 100_000}))
        state = live.server.server_state
        wait_for(lambda: state.total_requests == 8 and not state.tasks)
        unread = [one.num_unread_bytes for one in state.connections]
        # The client with the least unread data may stay.
        assert len(unread) in (1, 2) and 0 < sum(unread) <= 500_000


def test_a_large_answer_is_written_outside_the_event_loop_and_its_memory_is_freed(
    tiny_server, monkeypatch
):
    trimmed, writers = threading.Semaphore(0), []
    monkeypatch.setattr(workers, "trim_heap", trimmed.release)
    whole = completions._Answer.whole

    def watched(self: object, outputs: list) -> object:
        writers.append(threading.current_thread())
        return whole(self, outputs)

    monkeypatch.setattr(completions._Answer, "whole", watched)
    with tiny_server.http() as http:
        body = {"prompt": [60] * 300, "max_tokens": 40, "n": 4, "ignore_eos": True}
        assert http.post("/v1/completions", json=body).status_code == 200
        assert not trimmed.acquire(blocking=False)
        large = http.post(
            "/v1/completions", json=body | {"echo": True, "logprobs": 20, "prompt_logprobs": 20}
        )
        assert large.status_code == 200 and len(large.content) > 256 * 1024
        assert trimmed.acquire(timeout=10)
    loop, worker = (thread.name for thread in writers)
    assert not loop.startswith("minivllm") and worker.startswith("minivllm-")
