"""Clients that connect without a request, and too many connections."""

import socket
import time
from contextlib import ExitStack
from urllib.parse import urlsplit

import pytest
from support.patience import SOON
from support.server.live_server import LiveServer, serving, wait_for

from minivllm.server.http import connections

HEAD = b"GET /health HTTP/1.1\r\nHost: localhost\r\n"


def connect(live: LiveServer) -> socket.socket:
    parts = urlsplit(live.url)
    return socket.create_connection((parts.hostname, parts.port), timeout=SOON)


@pytest.mark.parametrize("sent", [b"", HEAD], ids=["nothing", "half a head"])
def test_a_client_that_sends_no_request_in_time_is_cut_off(sent, monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.2)
    with serving() as live, connect(live) as client:
        client.sendall(sent)
        assert client.recv(100) == b""
        wait_for(lambda: not live.server.server_state.connections)


def test_a_slow_trickle_of_bytes_does_not_extend_the_time_limit(monkeypatch):
    monkeypatch.setattr(connections, "HEAD_SECONDS", 1.0)
    with serving() as live, connect(live) as client:
        client.sendall(HEAD + b"\r\n")
        assert b" 200 " in client.recv(1000)
        with pytest.raises(OSError):
            for _ in range(200):
                client.sendall(b"E")
                time.sleep(0.05)


def test_connections_beyond_the_limit_are_closed_and_the_others_are_served(monkeypatch):
    monkeypatch.setattr(connections, "MAX_CONNECTIONS", 5)
    with serving() as live, ExitStack() as stack:
        clients = [stack.enter_context(connect(live)) for _ in range(5)]
        wait_for(lambda: len(live.server.server_state.connections) == 5)
        with connect(live) as one_more:
            assert one_more.recv(100) == b""
        clients[0].sendall(HEAD + b"\r\n")
        assert b" 200 " in clients[0].recv(1000)
