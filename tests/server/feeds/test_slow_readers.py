"""Readers of the event stream that do not read: they lose events, and nobody else notices."""

import socket
from urllib.parse import urlsplit

import pytest
from support.patience import SOON
from support.server.server_on_loopback import wait_until
from support.server.watched_hub import Watched
from support.tui.polled_sources import poll_until

from minivllm.events import types as ev
from minivllm.events.recording.lines import decode_line
from minivllm.server.feeds import event_hub
from minivllm.tui.sources.http_source import HttpSource
from minivllm.tui.sources.sse import SseParser


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(event_hub, "SECONDS_BETWEEN_LOOKS", 0.005)


def test_a_reader_that_does_not_read_gets_a_gap_and_the_others_and_the_engine_do_not_notice() -> None:
    watched = Watched(num_events=512)
    with watched.served() as url:
        slow = sleeping_reader(url)
        source = HttpSource(url)
        wait_until(lambda: watched.hub.num_readers == 2)
        for _ in range(60):
            watched.work(8)
            poll_until(source, lambda: len(source.recording) == len(watched.events))
        assert source.recording.head.lost_events == 0
        assert source.recording.head.state == watched.engine.engine.inspect()
        messages = read_until(slow, watched.events[-1].seq)
        gaps = [event for event in messages if isinstance(event, ev.Gap)]
        assert gaps and sum(gap.lost for gap in gaps) + len(messages) - len(gaps) == len(watched.events)
        slow.close()
        source.close()


def sleeping_reader(url: str) -> socket.socket:
    """Asks for the events and does not read them."""
    slow = socket.socket()
    slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 16)
    slow.connect((urlsplit(url).hostname, urlsplit(url).port))
    slow.sendall(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
    return slow


def read_until(connection: socket.socket, last_seq: int) -> list[ev.Event]:
    """All events that a raw connection brings, up to number `last_seq`."""
    connection.settimeout(SOON)
    raw = b""
    while b"id: %d\n" % last_seq not in raw:
        raw += connection.recv(1 << 16)
    stream = dechunked(raw.partition(b"\r\n\r\n")[2])
    return [decode_line(m.data)[1] for m in SseParser().feed(stream) if m.event == "message"]


def dechunked(raw: bytes) -> bytes:
    body = b""
    while raw:
        length, _, raw = raw.partition(b"\r\n")
        size = int(length, 16)
        body, raw = body + raw[:size], raw[size + 2 :]
    return body
