"""`/events`: a reader follows the engine from any time, and learns what it has missed."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from support.server.in_process import Exchange, in_process
from support.server.live_server import LiveServer, fake_engine, wait_for

from minivllm.events import types as ev
from minivllm.events.recording.lines import decode_line
from minivllm.server.feeds import event_hub
from minivllm.tui.sources.event_stream import SseParser


@pytest.fixture(autouse=True)
def quick(monkeypatch) -> None:
    monkeypatch.setattr(event_hub, "SECONDS_BETWEEN_LOOKS", 0.002)


class Reader:
    """Reads the stream, and keeps its events and the kinds of its messages."""

    def __init__(self, live: LiveServer, last_event_id: str | None = None) -> None:
        headers = {} if last_event_id is None else {"Last-Event-ID": last_event_id}
        self.exchange: Exchange = live.transport.ask("GET", "/events", {}, headers)
        self.response = self.exchange.response()
        self.parser, self.kinds, self.events = SseParser(), [], []

    def read_to(self, seq: int) -> list[ev.Event]:
        for piece in self.exchange:
            for message in self.parser.feed(piece):
                self.kinds.append(message.event)
                if message.event == "message":
                    self.events.append(decode_line(message.data)[1][0])
            if self.events and self.events[-1].seq >= seq:
                break
        return self.events


@contextmanager
def served(num_events: int = 1 << 15) -> Iterator[LiveServer]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_hub, "NUM_EVENTS", num_events)
        patch.setattr(event_hub, "MAX_READERS", 2)
        with in_process(events=True) as live:
            yield live


def work(live: LiveServer, max_tokens: int = 20) -> None:
    assert live.post("/v1/completions", {"prompt": "x", "max_tokens": max_tokens}).is_success
    live.wait_until_idle()


def test_a_reader_gets_every_event_from_the_first_to_the_last():
    with served() as live:
        reader = Reader(live)
        assert reader.response.headers["content-type"].startswith("text/event-stream")
        work(live)
        assert reader.read_to(live.events[-1].seq) == live.events
        assert reader.kinds[0] == "meta" and "state" not in reader.kinds
        reader.exchange.leave()
        wait_for(lambda: live.hub.num_readers == 0)


def test_a_late_reader_gets_the_state_and_continues_from_there():
    with served(num_events=64) as live:
        work(live, max_tokens=60)
        before = len(live.events)
        assert before > 64
        reader = Reader(live)
        work(live, max_tokens=3)
        assert reader.read_to(live.events[-1].seq) == live.events[before:]
        assert reader.kinds[:2] == ["meta", "state"]


def test_a_reader_that_returns_continues_after_its_last_event_or_learns_what_is_lost():
    with served(num_events=64) as live:
        work(live, max_tokens=5)
        last = live.events[-1].seq
        again = Reader(live, str(last - 3))
        assert [event.seq for event in again.read_to(last)] == [last - 2, last - 1, last]
        work(live, max_tokens=60)
        gap, *rest = Reader(live, str(last)).read_to(live.events[-1].seq)
        assert isinstance(gap, ev.Gap) and gap.seq - gap.lost == last
        assert rest == live.events[-64:] == live.events[gap.seq + 1 :]


def test_only_so_many_readers_are_served_and_a_wrong_number_is_refused():
    with served() as live:
        readers = [Reader(live), Reader(live)]
        assert Reader(live).response.status_code == 429
        readers[0].exchange.leave()
        wait_for(lambda: live.hub.num_readers == 1)
        for number in ("-1", "9" * 4000, "x"):
            assert Reader(live, number).response.status_code == 400
        assert Reader(live).response.status_code == 200


def test_a_dead_engine_ends_the_stream_and_new_readers_get_the_reason():
    with in_process(fake_engine(), events=True) as live, live.http() as http:
        reader = Reader(live)
        live.runner.after, live.runner.device_lost = lambda plan, watch: 1 / 0, True
        assert live.post("/v1/completions", {"prompt": "x"}).status_code == 503
        reader.read_to(10**9)  # up to the end of the stream
        assert reader.events == live.events
        answer = http.get("/events")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "engine_dead")
        assert http.get("/health").status_code == 503
        assert http.get("/metrics").status_code == 200
