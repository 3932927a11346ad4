"""Events from a server: complete, with reconnects, and restarts are recognized."""

import re
import threading
from contextlib import ExitStack
from urllib.parse import urlsplit

import msgspec
import pytest
from support.server.event_server import Answer, messages, meta, serving, sse
from support.server.live_server import LiveServer, fake_engine
from support.server.live_server import serving as live_server
from support.tui.driven_app import drawn, drive, until
from support.tui.polled_sources import all_events, poll_until
from textual.pilot import Pilot

from minivllm.errors import EventLogError
from minivllm.events.fold import fold
from minivllm.events.types import Gap
from minivllm.tui.app import DashboardApp
from minivllm.tui.sources import event_stream
from minivllm.tui.sources.event_stream import MAX_MESSAGE_BYTES, SseParser
from minivllm.tui.sources.http_source import HttpSource
from minivllm.tui.state.model import MODELS


@pytest.fixture(autouse=True)
def quick_retries(monkeypatch) -> None:
    monkeypatch.setattr(event_stream, "FIRST_DELAY", 0.02)
    monkeypatch.setattr(event_stream, "LAST_DELAY", 0.04)


def test_a_lost_connection_is_reported_and_resumed_where_it_broke(shared_prefix) -> None:
    header, events = shared_prefix.header, shared_prefix.run().events
    half = len(events) // 2
    torn = messages([events[half]])[:-9]
    with serving(
        Answer(meta(header) + messages(events[:half]) + torn),
        Answer(b"try later", status=503, kind="text/plain"),
        Answer(meta(header) + messages(events[half - 3 :]), hold=True),  # some events repeated
    ) as server:
        source = HttpSource(server.url)
        seen = set()
        poll_until(source, lambda: seen.add(source.status) or len(source.recording) == len(events))
        assert all_events(source) == events
        assert server.last_event_ids == [None, str(half - 1), str(half - 1)]
        lost = [status.text for status in seen if status.state == "lost"]
        assert lost and all(re.search("is not available.*trying again in 0.0", why) for why in lost)
        assert source.status[:2] == ("live", "")
        source.close()


@pytest.mark.parametrize("server_tells", [True, False], ids=["told by the server", "found by us"])
def test_permanently_lost_events_are_a_gap(shared_prefix, server_tells: bool) -> None:
    header, events = shared_prefix.header, shared_prefix.run().events
    last = events[49]
    gap = Gap(last.seq, last.step, last.t, lost=10)
    rest = [gap, *events[50:]] if server_tells else events[50:]
    later = msgspec.structs.replace(header, first_seq=rest[0].seq)
    with serving(
        Answer(meta(header) + messages(events[:40])),
        Answer(meta(later) + messages(rest), hold=True),
    ) as server:
        source = HttpSource(server.url)
        poll_until(source, lambda: len(source.recording) == len(events) - 9)
        (found,) = (event for event in all_events(source) if isinstance(event, Gap))
        assert (found.seq, found.lost) == (last.seq, 10)
        assert source.recording.head.lost_events == 10
        assert source.recording.head.state == fold(header, events[:40]).state
        assert source.recording.next_notable(40) == 40
        source.close()


def test_a_dashboard_finds_a_real_server_that_was_stopped_and_started_on_its_port() -> None:
    def say(live: LiveServer, *prompts: str) -> None:
        with live.http() as http:
            for prompt in prompts:
                body = {"model": "fake", "prompt": prompt, "max_tokens": 3}
                assert http.post("/v1/completions", json=body).status_code == 200
        live.wait_until_idle()

    async def waits_for_the_next(pilot: Pilot) -> None:
        servers.close()
        await until(pilot, lambda: "TRYING AGAIN" in drawn(pilot.app, "header")[0])
        live = servers.enter_context(live_server(fake_engine(), events=True, port=port))
        # With more events than the first one, so that their numbers do not tell them apart.
        say(live, *("a b c d e f g h", "i j k l m n o p") * 2)
        running.append(live)
        await until(pilot, lambda: pilot.app._exit)

    running: list[LiveServer] = []
    with ExitStack() as servers:
        first = servers.enter_context(live_server(fake_engine(), events=True))
        port = urlsplit(first.url).port
        say(first, "a b c")
        app = DashboardApp(HttpSource(first.url, codec=MODELS), follows=True)
        drive(app, waits_for_the_next)
        assert app.return_value == "next"
        # `minivllm attach` opens the address again.
        source = HttpSource(first.url)
        poll_until(source, lambda: source.recording.head.state == running[0].engine.inspect())
        assert len(source.recording.head.history) == 4
        source.close()


@pytest.mark.parametrize(
    ("answer", "fact"),
    [
        (Answer(b"<html>", kind="text/html"), "text/html"),
        (Answer(b"", status=404), "--events"),
        (Answer(b"", status=401), "VLLM_API_KEY"),
        (Answer(b"", status=418), "418"),
        (Answer(b"", status=302), "302"),
        (Answer(sse(b"{}")), "header"),
        (Answer(sse(b'{"hello": 1}', event="meta")), "not a minivllm recording"),
        ("newer", "upgrade"),
    ],
)
def test_a_server_with_another_protocol_gives_one_sentence(answer, fact, shared_prefix) -> None:
    if answer == "newer":
        answer = Answer(meta(msgspec.structs.replace(shared_prefix.header, version=99)))
    with serving(answer) as server:
        with pytest.raises(EventLogError, match=fact) as caught:
            HttpSource(server.url)
        assert server.url in str(caught.value) and "\n" not in str(caught.value)
        assert "minivllm-events" not in {thread.name for thread in threading.enumerate()}


STREAM = (
    b': hi\n\nevent: meta\r\ndata: {"a": 1}\r\n\r\nid: 7\ndata:x\ndata: y\n\nretry: 5\n\ndata:'
    b" last\n\ndata: torn"
)
MESSAGES = [("meta", b'{"a": 1}'), ("message", b"x y"), ("message", b"last")]


def test_messages_do_not_depend_on_the_pieces_of_the_stream_and_have_a_limit() -> None:
    for length in range(1, len(STREAM)):
        parser = SseParser()
        pieces = [STREAM[start : start + length] for start in range(0, len(STREAM), length)]
        assert [message for piece in pieces for message in parser.feed(piece)] == MESSAGES
    with pytest.raises(EventLogError, match="does not end"):
        SseParser().feed(b"data: " + b"x" * MAX_MESSAGE_BYTES)
