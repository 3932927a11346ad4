"""Sources in this process and files: nothing lost, nobody waits, and trouble is one sentence."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
from support.patience import SOON
from support.tui.polled_sources import all_events, poll_until

from minivllm.errors import EventLogError
from minivllm.events.fold import fold
from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.events.recording.log import LogWriter
from minivllm.tui.sources.http_source import HttpSource
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.sources.source import open_source
from minivllm.tui.sources.tail import TailSource


@pytest.fixture
def log(shared_prefix, tmp_path: Path) -> Path:
    """A complete recording of the shared-prefix run."""
    shared_prefix.run()
    path = tmp_path / "log.jsonl"
    with LogWriter(path, shared_prefix.header) as writer:
        for event in shared_prefix.events:
            writer.write(event)
    return path


# ---- in process ----


def test_events_of_this_process_can_be_rewound_like_any_recording(shared_prefix) -> None:
    source = InProcessSource(shared_prefix.header)
    shared_prefix.engine.subscribe(source.put)
    shared_prefix.run(10)
    assert source.poll(SOON) == len(shared_prefix.events) and source.poll(SOON) == 0
    assert source.status.state == "live"
    shared_prefix.run()
    source.poll(SOON)
    assert all_events(source) == shared_prefix.events
    assert source.recording.head.state == shared_prefix.engine.inspect()
    assert source.recording.view_at_event(100).state == fold(shared_prefix.header, shared_prefix.events[:100]).state
    source.close()


def test_an_event_is_shown_before_its_step_has_ended(shared_prefix) -> None:
    source = InProcessSource(shared_prefix.header)
    source.put(shared_prefix.run(1).events[0])
    assert source.poll(0.01) == 1
    source.close()


def test_putting_an_event_is_nothing_but_an_append_to_a_deque(shared_prefix) -> None:
    source = InProcessSource(shared_prefix.header)
    assert source.put.__qualname__ == "deque.append"
    source.close()


def test_a_source_that_comes_late_starts_from_an_inspection(shared_prefix) -> None:
    engine = shared_prefix.run(12).engine
    source = InProcessSource(engine.log_header(), state=engine.inspect())
    engine.subscribe(source.put)
    shared_prefix.run()
    source.poll(SOON)
    assert source.recording.head.state == engine.inspect()
    source.close()


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


def test_a_full_disk_is_told_and_becomes_a_gap_once_there_is_room(shared_prefix, monkeypatch) -> None:
    events = shared_prefix.run().events
    source = InProcessSource(shared_prefix.header, events[:50])
    source.poll(SOON)
    real_file = source._file

    class FullDisk:
        def write(self, data: bytes) -> int:
            return real_file.write(data[:5])

        truncate, seek, close = real_file.truncate, real_file.seek, real_file.close

    monkeypatch.setattr(source._writer, "_file", FullDisk())
    for event in events[50:80]:
        source.put(event)
    assert source.poll(SOON) == 0
    assert source.status[:2] == ("lost", "No room to keep the events: 30 are missing.")
    monkeypatch.setattr(source._writer, "_file", real_file)
    for event in events[80:]:
        source.put(event)
    source.poll(SOON)
    assert source.status.state == "live"
    assert source.recording.head.lost_events >= 30
    assert source.recording.head.state == fold(shared_prefix.header, events[:50]).state
    source.close()


# ---- replay ----


def test_a_replay_is_indexed_bit_by_bit_and_says_how_far(log: Path, shared_prefix) -> None:
    source = ReplaySource(log)
    assert source.status[:2] == ("indexing", "Reading the log: 0 %.") or source.status.state == "indexing"
    poll_until(source, lambda: source.status.state == "recording")
    assert source.status.text == ""
    assert all_events(source) == shared_prefix.events
    source.close()


def test_a_replay_of_a_damaged_log_shows_what_stands_before_the_damage(log: Path, shared_prefix) -> None:
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:41], b"garbage\n", *lines[42:]]))
    source = ReplaySource(log)
    poll_until(source, lambda: source.status.state == "recording")
    assert f"{log} is damaged at line 42: " in source.status.text
    assert all_events(source) == shared_prefix.events[:40]
    source.close()


def test_a_replay_of_a_truncated_log_ends_with_its_last_whole_line(log: Path, shared_prefix) -> None:
    log.write_bytes(log.read_bytes()[:-30])
    source = ReplaySource(log)
    poll_until(source, lambda: source.status[:2] == ("recording", ""))
    assert all_events(source) == shared_prefix.events[:-1]
    source.close()


@pytest.mark.parametrize("follow", [False, True], ids=["replay", "attach"])
@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"Dear diary\n", "is not a minivllm recording: its first line is no header."),
        (b'{"ev":"meta","schema":"other.trace"}\n', "is not a minivllm recording"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "is not a minivllm recording"),
        ("newer", "upgrade minivllm to open it."),
    ],
    ids=["foreign", "other header", "binary", "newer"],
)
def test_a_file_that_is_no_recording_of_ours_is_one_sentence(
    tmp_path: Path, shared_prefix, follow: bool, content: bytes | str, sentence: str
) -> None:
    path = tmp_path / "file"
    newer = encode_header(msgspec.structs.replace(shared_prefix.header, version=99))
    path.write_bytes(newer if content == "newer" else content)
    with pytest.raises(EventLogError, match=sentence) as caught:
        open_source(str(path), follow=follow)
    assert str(path) in str(caught.value) and "\n" not in str(caught.value)


def test_a_directory_or_an_empty_or_missing_file_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()
    for follow in (False, True):
        with pytest.raises(EventLogError, match=r"cannot be read: Is a directory\."):
            open_source(str(tmp_path), follow=follow)
    with pytest.raises(EventLogError, match="has no header line"):
        ReplaySource(tmp_path / "empty")
    with pytest.raises(EventLogError, match="has no header line"):
        TailSource(tmp_path / "empty", wait=0.05)
    with pytest.raises(EventLogError, match=r"cannot be read: No such file"):
        ReplaySource(tmp_path / "nothing")
    with pytest.raises(EventLogError, match="does not exist, and nobody has begun to write it"):
        TailSource(tmp_path / "nothing", wait=0.05)


@pytest.mark.parametrize("follow", [False, True], ids=["replay", "attach"])
def test_a_file_that_may_not_be_read_is_one_sentence(log: Path, monkeypatch, follow: bool) -> None:
    def refuse(*args: object, **kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Not by chmod: whoever runs tests as root may read everything.
    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(EventLogError, match=r"cannot be read: Permission denied\."):
        open_source(str(log), follow=follow)


# ---- a file that grows ----


def test_a_file_is_waited_for_and_followed_while_it_is_written(tmp_path: Path, shared_prefix) -> None:
    path, events = tmp_path / "growing.jsonl", shared_prefix.run().events
    data = encode_header(shared_prefix.header) + b"".join(map(encode_event, events))
    go_on = threading.Event()

    def write() -> None:
        time.sleep(0.05)
        with path.open("ab", buffering=0) as file:
            file.write(data[:20])  # half of the header
            time.sleep(0.05)
            file.write(data[20 : len(data) // 2])
            go_on.wait(SOON)
            for start in range(len(data) // 2, len(data), 997):
                file.write(data[start : start + 997])

    writer = threading.Thread(target=write)
    writer.start()
    source = TailSource(path)
    poll_until(source, lambda: source.status.state == "live")
    assert 0 < len(source.recording) < len(events)
    go_on.set()
    poll_until(source, lambda: len(source.recording) == len(events))
    writer.join()
    assert all_events(source) == events and source.status[:2] == ("live", "")
    source.close()


def cut_short(path: Path) -> None:
    os.truncate(path, 500)


def begun_anew(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:3000])


def replaced(path: Path) -> None:
    other = path.with_suffix(".new")
    other.write_bytes(path.read_bytes())
    other.rename(path)


@pytest.mark.parametrize(
    ("accident", "sentence"),
    [
        (cut_short, "was cut short while it was read: attach to it again"),
        (begun_anew, "was cut short while it was read"),
        (replaced, "was replaced by another file: attach to it again"),
        (Path.unlink, "was removed, so nothing more will come."),
    ],
)
def test_whatever_happens_to_the_file_is_told_and_nothing_seen_is_lost(
    log: Path, shared_prefix, accident: Callable[[Path], None], sentence: str
) -> None:
    source, events = TailSource(log), shared_prefix.events
    poll_until(source, lambda: len(source.recording) == len(events))
    accident(log)
    poll_until(source, lambda: source.status.state == "ended")
    assert f"{log} {sentence}" in source.status.text
    assert source.poll(0.01) == 0
    assert all_events(source) == events
    assert source.recording.view_at_event(200).state == fold(shared_prefix.header, events[:200]).state
    source.close()


# ---- all of them ----


def test_the_name_says_which_source_is_meant(log: Path, monkeypatch) -> None:
    monkeypatch.setattr(HttpSource, "__init__", lambda self, url, *, codec: None)
    for text, follow, kind in [
        (str(log), False, ReplaySource),
        (str(log), True, TailSource),
        ("http://localhost:8000", True, HttpSource),
        ("HTTPS://example.org/x", False, HttpSource),
    ]:
        source = open_source(text, follow=follow)
        assert type(source) is kind
        if kind is not HttpSource:
            source.close()


@pytest.mark.parametrize(
    ("module", "absent"),
    [
        (
            "minivllm.tui.app",
            ("torch", "transformers", "numpy", "minivllm.core", "minivllm.runtime", "minivllm.engine.engine"),
        ),
        ("minivllm.tui.sources.source", ("torch", "textual", "rich")),
        ("minivllm.tui.state.model", ("torch", "textual")),
    ],
)
def test_a_module_loads_nothing_that_it_does_not_need(module: str, absent: tuple[str, ...]) -> None:
    code = f"import sys, {module}; print(*[name for name in {absent!r} if name in sys.modules])"
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.split() == []
