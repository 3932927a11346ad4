"""The event stream: the dashboard's own client follows it from any time, and reconnects."""

import asyncio
import http.client
from concurrent.futures import Future
from urllib.parse import urlsplit

import pytest
from support.patience import SOON
from support.server.live_server import wait_for
from support.server.watched_hub import CutOnce, Watched
from support.tui.polled_sources import all_events, poll_until

from minivllm.errors import EngineDeadError
from minivllm.events import types as ev
from minivllm.server.feeds import event_hub
from minivllm.server.feeds.event_hub import Snapshot
from minivllm.tui.sources import event_stream
from minivllm.tui.sources.http_source import HttpSource


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(event_stream, "FIRST_DELAY", 0.02)
    monkeypatch.setattr(event_hub, "SECONDS_BETWEEN_LOOKS", 0.005)


# ---- with the dashboard's own client ----


def test_the_dashboard_follows_a_server_from_its_first_event_to_its_last():
    watched = Watched()
    with watched.served() as url:
        source = HttpSource(url)
        watched.work()
        poll_until(source, lambda: len(source.recording) == len(watched.events))
        assert all_events(source) == watched.events
        assert source.recording.head.state == watched.engine.engine.inspect()
        assert source.status[:2] == ("live", "") and watched.num_snapshots == 0
        source.close()
        wait_for(lambda: watched.hub.num_readers == 0)


def test_a_late_client_gets_the_state_and_continues_from_there():
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


def test_a_client_that_reconnects_continues_and_loses_nothing():
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


def test_a_client_that_reconnects_too_late_learns_how_much_is_lost():
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


# ---- the stream itself ----


def status_of(url: str, **headers: bytes) -> int:
    connection = http.client.HTTPConnection(urlsplit(url).netloc, timeout=SOON)
    connection.request("GET", "/events", headers=headers)
    status = connection.getresponse().status
    connection.close()
    return status


def test_readers_beyond_the_limit_are_refused():
    watched = Watched(max_readers=2)
    with watched.served() as url:
        sources = [HttpSource(url), HttpSource(url)]
        wait_for(lambda: watched.hub.num_readers == 2)
        assert status_of(url) == 429
        for source in sources:
            source.close()
        wait_for(lambda: watched.hub.num_readers == 0)
        assert status_of(url) == 200


def test_clients_that_connect_together_share_a_snapshot_until_its_events_are_gone():
    watched = Watched(num_events=64)

    async def come() -> None:
        watched.work()
        first, *_ = await asyncio.gather(*(watched.hub.open(None) for _ in range(50)))
        assert watched.num_snapshots == 1
        watched.work()
        second, *_ = await asyncio.gather(*(watched.hub.open(None) for _ in range(50)))
        assert watched.num_snapshots == 2 and second.next_seq > first.next_seq

    asyncio.run(come())


@pytest.mark.parametrize("last_event_id", ["-1", "9" * 4000, "٣"])
def test_a_last_event_id_that_is_not_a_number_is_refused(last_event_id):
    watched = Watched()
    with watched.served() as url:
        assert status_of(url, **{"Last-Event-ID": last_event_id.encode()}) == 400


def test_a_dead_engine_has_no_state_and_the_answer_is_503():
    watched = Watched(num_events=8)
    watched.work()
    dead: Future[Snapshot] = Future()
    dead.set_exception(EngineDeadError("The engine failed: out of memory"))
    watched.hub._inspect = lambda: dead
    with watched.served() as url:
        assert status_of(url) == 503
