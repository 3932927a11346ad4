"""Connections: clients that send too little, read too little or are too many, and the end."""

import json
import logging
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from support.patience import FOREVER, SOON
from support.server.live_server import LiveServer, deaf_client, fake_engine, serving, wait_for

from minivllm.server import run

HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"
LONG = {"prompt": "a long story", "max_tokens": 150, "ignore_eos": True}
BIG = {"tokens": [60] * 50_000}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "SECONDS_BETWEEN_LOOKS", 0.05)


def connect(live: LiveServer) -> socket.socket:
    parts = urlsplit(live.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=SOON)


@pytest.mark.parametrize("sent", [b"", HEAD], ids=["nothing", "half a head"])
def test_a_client_that_sends_no_request_in_time_is_cut_off(sent, monkeypatch):
    monkeypatch.setattr(run, "HEAD_SECONDS", 0.2)
    with serving() as live, connect(live) as client:
        client.sendall(sent)
        assert client.recv(100) == b""
        wait_for(lambda: not live.server.server_state.connections)


def test_a_request_at_the_limit_of_connections_is_refused_until_one_is_closed(monkeypatch):
    monkeypatch.setattr(run, "MAX_CONNECTIONS", 5)
    with serving() as live, ExitStack() as stack:
        clients = [stack.enter_context(connect(live)) for _ in range(5)]
        wait_for(lambda: len(live.server.server_state.connections) == 5)
        clients[0].sendall(HEAD + b"\r\n")
        assert b" 503 " in clients[0].recv(1000)
        wait_for(lambda: len(live.server.server_state.connections) == 4)
        clients[1].sendall(HEAD + b"\r\n")
        assert b" 200 " in clients[1].recv(1000)


def test_a_client_that_does_not_read_its_answer_is_cut_off_at_the_time_limit():
    engine = fake_engine(max_model_len=60_000)
    with serving(engine, send_buffer=4096, request_timeout=1.0) as live, ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(deaf_client(live, "/detokenize", BIG))
        connections = live.server.server_state.connections
        wait_for(
            lambda: sum(user.transport.get_write_buffer_size() > 0 for user in connections) == 3
        )
        wait_for(lambda: not connections)


def test_unread_bytes_beyond_a_total_close_the_connection_with_the_most(monkeypatch):
    monkeypatch.setattr(run, "MAX_UNREAD_BYTES", 100_000)
    with serving(fake_engine(max_model_len=60_000), send_buffer=4096) as live, ExitStack() as stack:
        for _ in range(2):
            stack.enter_context(deaf_client(live, "/detokenize", BIG))
        connections = live.server.server_state.connections
        wait_for(lambda: sum(connection.cycle is not None for connection in connections) == 2)
        wait_for(lambda: len(connections) == 1)
        assert live.post("/detokenize", {"tokens": [60]}).status_code == 200


def test_a_second_signal_ends_at_once_and_waiting_clients_get_the_reason(caplog):
    caplog.set_level(logging.ERROR)
    with serving(drain_timeout=FOREVER) as live, ThreadPoolExecutor(2) as pool:
        live.gate.close()
        running, streaming = (
            pool.submit(live.post, "/v1/completions", LONG | {"stream": stream})
            for stream in (False, True)
        )
        wait_for(lambda: live.service.num_unfinished == 2)
        live.gate.open(5)
        wait_for(lambda: live.gate.num_steps == 5)
        live.begin_exit()
        live.begin_exit()
        refused, text = running.result(), streaming.result().text
        assert (refused.status_code, refused.json()["error"]["code"]) == (503, "shutting_down")
        *_, last, done, end = text.split("\n\n")
        assert json.loads(last.removeprefix("data: "))["error"]["code"] == "shutting_down"
        assert (done, end) == ("data: [DONE]", "")
        live.gate.open()
        wait_for(lambda: not live.loop.is_running())
        # The application was closed properly too: its engine's thread has ended.
        assert live.service.is_dead
    assert caplog.records == []
