"""`/events` for a recording that another process writes, such as a real vLLM's."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from support.patience import SOON
from support.server.in_process import Transport

from minivllm.errors import EventLogError
from minivllm.events import types as ev
from minivllm.events.recording.compact import StepDecodes
from minivllm.events.recording.lines import decode_line, encode_event, encode_header
from minivllm.server.feeds.file_feed import file_app
from minivllm.server.options import ServerOptions
from minivllm.tui.sources.event_stream import SseParser

HEADER = ev.LogHeader(
    version=2, engine="0", source="vLLM 0.32.0", model="m", clock="monotonic", wall=9.0, mono=0.0,
    num_blocks=8, reserved_blocks=1, block_size=4, max_num_seqs=4, max_num_batched_tokens=16,
    max_model_len=32, scheduling_policy="fcfs", enable_prefix_caching=True,
)  # fmt: skip


@contextmanager
def served(path: Path, **options: object) -> Iterator[Transport]:
    app = file_app(str(path), ServerOptions(**options))
    loop = asyncio.new_event_loop()
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    life = app.router.lifespan_context(app)
    asyncio.run_coroutine_threadsafe(life.__aenter__(), loop).result(SOON)
    try:
        yield Transport(app, loop)
    finally:
        asyncio.run_coroutine_threadsafe(life.__aexit__(None, None, None), loop).result(SOON)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SOON)
        loop.close()


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
