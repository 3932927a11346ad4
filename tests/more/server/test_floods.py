"""Many large requests: memory stays bounded, small requests do not wait."""

import socket
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager

import httpx2
from support.patience import SOON
from support.server.live_server import LiveServer, serving, wait_for

from minivllm.server.http import routes

LARGE = 90_000


@contextmanager
def long_texts_held(live: LiveServer, number: int) -> Iterator[list[Future[httpx2.Response]]]:
    """`number` long texts whose tokenization lasts until the block ends."""
    tokenizer = live.service.tokenizer
    encode, gate, entered = tokenizer.encode, threading.Event(), threading.Semaphore(0)

    def held(text: str, *args: object) -> list[int]:
        if len(text) > 1000:
            entered.release()
            gate.wait(SOON)
        return encode(text, *args)

    tokenizer.encode = held
    with ThreadPoolExecutor(number) as pool:
        asked = [
            pool.submit(live.post, "/tokenize", {"prompt": "x" * LARGE}) for _ in range(number)
        ]
        try:
            assert entered.acquire(timeout=SOON)
            wait_for(lambda: len(live.server.server_state.tasks) == number)
            yield asked
        finally:
            gate.set()


def test_a_short_prompt_does_not_wait_for_long_texts():
    messages = [{"role": "user", "content": "x"}]
    with serving() as live, long_texts_held(live, 4) as long:
        for path, body in (
            ("/v1/completions", {"prompt": "x", "max_tokens": 2}),
            ("/v1/chat/completions", {"messages": messages}),
        ):
            assert live.post(path, body).status_code == 200
        assert not any(answer.done() for answer in long)
    assert [answer.result().status_code for answer in long] == [200] * 4


def test_large_bodies_beyond_a_total_are_refused_and_small_ones_pass(monkeypatch):
    monkeypatch.setattr(routes, "BODIES_TOGETHER", 2)
    with serving(max_body_bytes=100_000) as live:
        with long_texts_held(live, 2):
            refused = live.post("/tokenize", {"prompt": "y" * LARGE})
            assert (refused.status_code, refused.json()["error"]["code"]) == (429, "queue_full")
            assert refused.headers["retry-after"] == "1"
            assert live.post("/tokenize", {"prompt": "x" * 1000}).status_code == 200
        live.wait_until_idle()
        wait_for(lambda: not live.server.server_state.tasks)
        assert live.post("/tokenize", {"prompt": "y" * LARGE}).status_code == 200


def test_a_body_returns_its_bytes_however_it_ends():
    with serving(max_body_bytes=100_000, body_timeout=0.2) as live, live.http() as http:
        for content in (b"{}", b"x" * 99_000, b"x" * 100_001, b'{"prompt": "\xff"}'):
            http.post("/tokenize", content=content, headers={"Content-Type": "application/json"})
        with http.stream("POST", "/v1/completions", json={"prompt": "x", "stream": True}):
            pass
        host = live.url.removeprefix("http://").rpartition(":")
        for head, status in (
            (b"Content-Length: 5000\r\n\r\nabc", b" 408 "),
            (b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nzz\r\n", b""),
        ):
            with socket.create_connection((host[0], int(host[2])), timeout=SOON) as client:
                client.sendall(b"POST /generate HTTP/1.1\r\nHost: localhost\r\n" + head)
                assert status in client.recv(1000)
        bodies, server = live.server.config.app.state.bodies, live.server.server_state
        wait_for(lambda: bodies.num_bytes == 0 and not server.tasks)
