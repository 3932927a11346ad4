"""`/events` for a recording that another process writes, such as a real vLLM's."""

import asyncio
from contextlib import AbstractContextManager
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.server.in_process import Transport, running
from support.vllm.recorded import HEADER

from minivllm.errors import EventLogError
from minivllm.events import types as ev
from minivllm.events.recording.compact import StepDecodes
from minivllm.events.recording.lines import decode_header, decode_line, encode_event, encode_header
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.server.feeds.file_feed import file_app
from minivllm.server.options import ServerOptions
from minivllm.tui.sources.event_stream import SseParser


def served(path: Path, **options: object) -> AbstractContextManager[Transport]:
    app = file_app(str(path), ServerOptions(**options))
    return running(app, asyncio.new_event_loop())


def lines(*events: object) -> bytes:
    return b"".join(map(encode_event, events))


def arrivals() -> bytes:
    return lines(
        ev.RequestArrived(0, 0, 0.1, "a", "a", 0, [1, 2], 9),
        ev.RequestArrived(1, 0, 0.1, "b", "b", 1, [1, 2], 9),
        ev.RequestAdmitted(2, 0, 0.1, "a", 0, 0, 0),
        ev.RequestAdmitted(3, 0, 0.1, "b", 1, 0, 0),
    )


def test_a_reader_follows_the_file_and_gets_each_event_of_a_line_by_itself(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode_header(HEADER) + arrivals())
    with served(path) as transport:
        exchange, parser, got = transport.ask("GET", "/events", {}), SseParser(), []
        assert exchange.response().status_code == 200
        for piece in exchange:
            got += parser.feed(piece)
            if len(got) == 5:  # the header and four events: now vLLM writes a step
                with path.open("ab") as file:
                    file.write(lines(StepDecodes(4, 1, 0.2, ["a", "b"], [2, 2])))
            if len(got) >= 7:
                break
        exchange.leave()
    assert got[0].event == "meta" and b"vLLM 0.32.0" in got[0].data
    events = [decode_line(message.data)[1][0] for message in got[1:]]
    assert [event.seq for event in events] == [0, 1, 2, 3, 4, 5]
    assert [event.seq_id for event in events[4:]] == ["a", "b"]


def test_a_file_in_its_place_is_a_new_run_that_may_begin_in_the_middle(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode_header(HEADER) + arrivals())
    fold = Recording(path).head
    with served(path) as transport:
        stream = transport.ask("GET", "/events", {}).response().iter_raw()
        first, *_ = SseParser().feed(next(stream))
        path.rename(tmp_path / "run.jsonl.1")  # as the recorder does at its limit
        LogWriter(path, replace(HEADER, first_seq=4), fold.state).close()
        for _ in stream:
            pass  # until it ends
        stream = transport.ask("GET", "/events", {}).response().iter_raw()
        meta, state, *_ = SseParser().feed(next(stream))
        assert decode_header("", meta.data).first_seq == 4 and state.event == "state"
        assert decode_header("", meta.data).run != decode_header("", first.data).run
        path.unlink()
        for _ in stream:
            pass
        assert transport.ask("GET", "/events", {}).response().status_code == 503


def test_the_key_of_a_server_is_needed_and_a_damaged_file_ends_the_stream(tmp_path: Path):
    path = tmp_path / "run.jsonl"
    path.write_bytes(encode_header(HEADER) + arrivals())
    with served(path, api_key=("k",)) as transport:
        assert transport.ask("GET", "/events", {}).response().status_code == 401
        key = {"Authorization": "Bearer k"}
        exchange = transport.ask("GET", "/events", {}, key)
        assert exchange.response().status_code == 200
        with path.open("ab") as file:
            file.write(b"garbage\nmore\n")
        assert len(list(exchange)) > 0, "the stream ends"
        assert transport.ask("GET", "/events", {}, key).response().status_code == 503
    with pytest.raises(EventLogError, match="not a minivllm recording"):
        path.write_bytes(b"garbage\n")
        file_app(str(path), ServerOptions())
