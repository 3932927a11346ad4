"""In-process and file sources: nothing lost, no blocking, and one sentence per problem."""

import os
import shutil
import threading
from pathlib import Path

import msgspec
import pytest
from support.patience import SOON
from support.tui.polled_sources import all_events, poll_until

from minivllm.events.fold import fold
from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.tui.sources import tail
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.sources.tail import TailSource


@pytest.fixture
def log(shared_prefix, tmp_path: Path) -> Path:
    """A complete recording of the shared-prefix run."""
    path, run = tmp_path / "log.jsonl", shared_prefix.run()
    path.write_bytes(encode_header(run.header) + b"".join(map(encode_event, run.events)))
    return path


def test_events_of_this_process_can_be_rewound_like_any_recording(shared_prefix) -> None:
    engine = shared_prefix.engine
    source = InProcessSource(shared_prefix.header)
    assert source.put.__qualname__ == "deque.append", "the engine pays for no more than that"
    engine.subscribe(source.put)
    shared_prefix.run(10)
    late = InProcessSource(engine.log_header(), state=engine.inspect())
    engine.subscribe(late.put)
    assert source.poll(SOON) == len(shared_prefix.events) and source.poll(SOON) == 0
    shared_prefix.run()
    for feed in (source, late):
        feed.poll(SOON)
        assert feed.status.state == "live" and feed.recording.head.state == engine.inspect()
    assert all_events(source) == shared_prefix.events
    truth = fold(shared_prefix.header, shared_prefix.events[:100])
    assert source.recording.view_at_event(100).state == truth.state
    source.close()
    late.close()


def test_nothing_is_lost_between_two_threads_and_a_poll_keeps_to_its_time(shared_prefix) -> None:
    end = next(event for event in shared_prefix.run(1).events if type(event).__name__ == "StepEnd")
    events = [msgspec.structs.replace(end, seq=seq, step=seq // 10) for seq in range(60_000)]
    source, longest, got = InProcessSource(shared_prefix.header), 0, 0
    producer = threading.Thread(target=lambda: [source.put(event) for event in events])
    producer.start()
    while got < len(events):
        num_new = source.poll(0)
        longest, got = max(longest, num_new), got + num_new
    producer.join()
    assert longest <= 2000, "a poll does little at a time when it has no time"
    assert all_events(source) == events
    source.close()


def test_a_file_is_followed_while_it_is_written(tmp_path: Path, shared_prefix, monkeypatch):
    path, events = tmp_path / "growing.jsonl", shared_prefix.run().events
    data = encode_header(shared_prefix.header) + b"".join(map(encode_event, events))
    pieces = [data[:20], data[20 : len(data) // 2]]  # half of the header, then half of the events

    def write_on(seconds: float) -> None:
        """Replaces sleeping while the file is missing or has no header."""
        with path.open("ab") as file:
            file.write(pieces.pop(0))

    with monkeypatch.context() as patch:
        patch.setattr(tail.time, "sleep", write_on)
        source = TailSource(path)
    assert pieces == []
    poll_until(source, lambda: source.status.state == "live")
    assert 0 < len(source.recording) < len(events)
    for start in range(len(data) // 2, len(data), 997):
        with path.open("ab") as file:
            file.write(data[start : start + 997])
        source.poll(0.0)
    poll_until(source, lambda: source.status.state == "live")
    assert all_events(source) == events
    source.close()


ACCIDENTS = {
    "was truncated": lambda path: os.truncate(path, 500),
    "was replaced": lambda path: os.rename(shutil.copy(path, f"{path}.new"), path),
    "was removed": Path.unlink,
}


@pytest.mark.parametrize("fact", ACCIDENTS)
def test_changes_to_the_file_are_reported_and_lose_no_event(log, shared_prefix, fact) -> None:
    source, events = TailSource(log), shared_prefix.events
    poll_until(source, lambda: len(source.recording) == len(events))
    ACCIDENTS[fact](log)
    poll_until(source, lambda: source.status.state == "ended")
    assert f"{log} {fact}" in source.status.text
    assert source.poll(0.01) == 0
    assert all_events(source) == events
    truth = fold(shared_prefix.header, events[:200])
    assert source.recording.view_at_event(200).state == truth.state
    source.close()
