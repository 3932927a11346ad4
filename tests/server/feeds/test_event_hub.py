"""The event stream: the dashboard's own client follows it from any moment, and comes back to it."""

import asyncio
import http.client
from concurrent.futures import Future
from urllib.parse import urlsplit

import pytest
from support.patience import SOON
from support.server.server_on_loopback import wait_until
from support.server.watched_hub import CutOnce, Watched
from support.tui.polled_sources import all_events, poll_until

from minivllm.errors import EngineDeadError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.recording.lines import decode_header, decode_line
from minivllm.server.feeds import event_hub
from minivllm.server.feeds.event_hub import Snapshot
from minivllm.tui.sources import event_stream
from minivllm.tui.sources.http_source import HttpSource
from minivllm.tui.sources.sse import SseParser


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(event_stream, "FIRST_DELAY", 0.02)
    monkeypatch.setattr(event_hub, "SECONDS_BETWEEN_LOOKS", 0.005)


# ---- with the dashboard's own client ----


def test_the_dashboard_follows_a_server_from_its_first_event_to_its_last() -> None:
    watched = Watched()
    with watched.served() as url:
        source = HttpSource(url)
        watched.work()
        poll_until(source, lambda: len(source.recording) == len(watched.events))
        assert all_events(source) == watched.events
        assert source.recording.head.state == watched.engine.engine.inspect()
        assert source.status[:2] == ("live", "") and watched.num_snapshots == 0
        source.close()
        wait_until(lambda: watched.hub.num_readers == 0)


def test_who_comes_late_gets_the_state_and_goes_on_from_there() -> None:
    watched = Watched(num_events=64)
    watched.work()
    assert len(watched.events) > 64
    with watched.served() as url:
        source = HttpSource(url)
        poll_until(source, lambda: source.recording.head.state == watched.engine.engine.inspect())
        before = len(watched.events)
        watched.engine.add("later", [9, 8, 7], max_tokens=2)
        watched.engine.run()
        poll_until(source, lambda: len(source.recording) == len(watched.events) - before)
        assert all_events(source) == watched.events[before:]
        assert source.recording.head.state == watched.engine.engine.inspect()
        assert source.recording.header.first_seq == before
        source.close()


def test_who_was_away_goes_on_where_it_was_and_loses_nothing() -> None:
    watched = Watched()
    with watched.served() as url:
        cut = CutOnce(url)
        source = HttpSource(cut.url)
        watched.work()
        poll_until(source, lambda: len(source.recording) == len(watched.events))
        cut.break_off()
        watched.work()
        poll_until(source, lambda: len(source.recording) == len(watched.events))
        assert all_events(source) == watched.events and source.recording.head.lost_events == 0
        assert cut.num_connections == 2 and watched.num_snapshots == 0
        source.close()
        cut.close()


def test_who_was_away_too_long_is_told_exactly_how_much_is_lost() -> None:
    watched = Watched(num_events=256)
    with watched.served() as url:
        watched.work(1)
        cut = CutOnce(url)
        source = HttpSource(cut.url)
        poll_until(source, lambda: len(source.recording) == len(watched.events))
        had = len(watched.events)
        cut.break_off(hold=True)
        watched.work(12)
        cut.let_go()
        poll_until(source, lambda: source.recording.head.last_seq == watched.events[-1].seq)
        (gap,) = [event for event in all_events(source) if isinstance(event, ev.Gap)]
        assert gap.seq == had + gap.lost - 1 and len(watched.events) - had - gap.lost == 256
        assert all_events(source)[had + 1 :] == watched.events[gap.seq + 1 :]
        source.close()
        cut.close()


def test_an_engine_that_is_dead_tells_no_state_and_the_answer_is_503() -> None:
    watched = Watched(num_events=8)
    watched.work()

    def dead() -> Future[Snapshot]:
        future: Future[Snapshot] = Future()
        future.set_exception(EngineDeadError("The engine failed: out of memory"))
        return future

    watched.hub._inspect = dead
    with watched.served() as url:
        assert status_of(url) == 503


# ---- the stream itself ----


def status_of(url: str, **headers: str) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SOON)
    connection.request("GET", "/events", headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


@pytest.mark.parametrize("last_event_id", ["-1", "9" * 5000, "٣"])
def test_a_last_event_id_that_is_no_number_is_refused(last_event_id: str) -> None:
    watched = Watched()
    with watched.served() as url:
        # An empty header is none, and more bytes than a server takes never reach us.
        value = last_event_id[:4000].encode()
        connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SOON)
        connection.request("GET", "/events", headers={"Last-Event-ID": value})
        assert connection.getresponse().status == 400
        connection.close()


def test_more_readers_than_are_allowed_are_sent_away() -> None:
    watched = Watched(max_readers=2)
    with watched.served() as url:
        sources = [HttpSource(url), HttpSource(url)]
        wait_until(lambda: watched.hub.num_readers == 2)
        assert status_of(url) == 429
        for source in sources:
            source.close()
        wait_until(lambda: watched.hub.num_readers == 0)
        assert status_of(url) == 200


def test_many_who_come_at_once_cost_the_engine_one_snapshot() -> None:
    watched = Watched(num_events=16)
    watched.work()

    async def many() -> None:
        await asyncio.gather(*(watched.hub.open(None) for _ in range(50)))

    asyncio.run(many())
    assert watched.num_snapshots == 1


def test_a_shared_snapshot_is_not_given_once_its_events_are_gone() -> None:
    watched = Watched(num_events=64)
    watched.work()
    first = asyncio.run(watched.hub.open(None))
    watched.work()
    second = asyncio.run(watched.hub.open(None))
    assert watched.num_snapshots == 2 and second.next_seq > first.next_seq


# ---- slow readers, and the engine ----


def test_a_fold_of_the_stream_is_the_engine_at_every_moment() -> None:
    watched = Watched(num_events=100_000)
    opening = asyncio.run(watched.hub.open(None))
    fold = Fold(decode_header("test", SseParser().feed(opening.data)[0].data))
    seq = opening.next_seq
    for i in range(6):
        watched.engine.add(f"r{i}", [i, 2, 3, 4, 5, 6, 7], max_tokens=14, n=1 + i % 3)
    while watched.engine.engine.has_unfinished_requests():
        watched.engine.step()
        piece = watched.hub._ring.take(seq)
        seq = piece.next_seq
        for message in SseParser().feed(piece.data):
            fold.apply(decode_line(message.data)[1])
        assert fold.state == watched.engine.engine.inspect()
