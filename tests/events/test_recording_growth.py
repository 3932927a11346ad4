"""A file that grows in pieces reads like a whole one; damage ends it but removes nothing."""

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.engine.engine_fakes import WatchedEngine
from support.tui.memory_recording import notable_numbers

from minivllm.errors import EventLogError
from minivllm.events.fold import Fold
from minivllm.events.fold import fold as fold_all
from minivllm.events.recording.event_index import NOTABLE_KINDS
from minivllm.events.recording.keyframes import Keyframes
from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.events.types import Event, LogHeader


@cache
def trace(seed: int) -> tuple[LogHeader, list[Event]]:
    """A short run under pressure, with samples, beams and aborts."""
    engine = WatchedEngine(num_blocks=12 + seed % 3, max_num_batched_tokens=24)
    header = engine.engine.log_header()
    for i in range(5):
        prompt, samples = [*range(4 + seed % 5), 30 + i], 1 + (i + seed) % 3 // 2
        engine.add(f"r{i}", prompt, max_tokens=6 + seed % 4, n=samples)
        if (i + seed) % 2:
            engine.step()
    if seed % 2:
        engine.engine.abort_request("r4")
    engine.run()
    return header, engine.events


def file_of(header: LogHeader, events: list[Event]) -> bytes:
    return encode_header(header) + b"".join(map(encode_event, events))


def written(tmp_path: Path, data: bytes) -> Path:
    (tmp_path / "log.jsonl").write_bytes(data)
    return tmp_path / "log.jsonl"


def opened(path: Path, spacing: int = 3000) -> Recording[Fold]:
    return Recording(path, index=False, keyframes=Keyframes(spacing=spacing))


def index_all(recording: Recording) -> int:
    return recording.index_more(60)


@settings(max_examples=25)
@given(
    st.integers(0, 11),
    st.lists(st.floats(0, 1), max_size=8),
    st.lists(st.floats(0, 1), min_size=1, max_size=6),
    st.sampled_from([500, 3000, 1 << 20]),
)
def test_every_moment_of_a_growing_file_is_its_fold(tmp_path_factory, seed, cuts, seeks, spacing):
    header, events = trace(seed)
    data, first = file_of(header, events), len(encode_header(header))
    ends = sorted({first + int(cut * (len(data) - first)) for cut in cuts} | {len(data)})
    path = written(tmp_path_factory.mktemp("growing"), data[:first])
    recording = opened(path, spacing)
    for begin, end in pairwise([first, *ends]):
        with path.open("ab") as file:
            file.write(data[begin:end])
        before = len(recording)
        assert index_all(recording) == len(recording) - before
        # Complete lines count; a torn line is waited for.
        assert len(recording) == data[:end].count(b"\n") - 1
        assert recording.damage is None
        for seek in seeks:
            count = int(seek * len(recording))
            view = recording.view_at_event(count)
            assert view.state == fold_all(header, events[:count]).state
            assert view.last_seq == (events[count - 1].seq if count else -1)
        assert recording.head.state == fold_all(header, events[: len(recording)]).state
    assert list(recording.events(0, len(recording))) == events


def test_every_answer_of_the_index_equals_a_search_through_all_events(tmp_path):
    header, events = trace(1)
    recording = Recording(written(tmp_path, file_of(header, events)))
    steps, notable = [event.step for event in events], notable_numbers(events)
    assert (recording.first_step, recording.last_step) == (steps[0], steps[-1])
    for step in range(-1, steps[-1] + 3):
        assert recording.step_begin(step) == sum(other < step for other in steps)
        assert recording.step_end(step) == sum(other <= step for other in steps)
    for index in range(len(events)):
        assert recording.step_of(index) == steps[index]
    for index in range(len(events) + 1):
        following, before = [i for i in notable if i >= index], [i for i in notable if i < index]
        assert recording.next_notable(index) == min(following, default=None)
        assert recording.previous_notable(index) == max(before, default=None)
        assert list(recording.events(index, index + 7)) == events[index : index + 7]
        for kind in NOTABLE_KINDS:
            found = any(type(events[i]) is kind for i in notable if index <= i < index + 7)
            assert recording.has_notable(kind, index, index + 7) == found
    assert 0 < len(notable) < sum(type(event) in NOTABLE_KINDS for event in events)


@pytest.mark.parametrize("num_steps", [0, 5])
def test_a_recording_begun_in_the_middle_of_a_run_gives_the_engines_state(tmp_path, num_steps):
    engine = WatchedEngine(num_blocks=10)
    for i in range(5):
        engine.add(f"r{i}", [1, 2, 3, 4, 10 + i], max_tokens=9, n=1 + i % 2)
    for _ in range(num_steps):
        engine.step()
    num_before, begin = len(engine.events), engine.engine.inspect()
    path = tmp_path / "late.jsonl"
    with LogWriter(path, engine.engine.log_header(), state=begin) as log:
        engine.engine.subscribe(log.write)
        engine.step()
        after_a_step = engine.engine.inspect()
        engine.run()
    recording = Recording(path)
    assert recording.header.first_seq == num_before
    assert len(recording) == len(engine.events) - num_before
    assert recording.head.state == engine.engine.inspect()
    assert recording.view_at_event(0).state == begin
    assert recording.view_at_step(num_steps + 1).state == after_a_step


@pytest.mark.parametrize("damage", [b'{"ev":"block.al\n', b"\x00\xff not json\n"])
def test_a_damaged_last_line_is_waited_for_until_another_follows(tmp_path, damage):
    header, events = trace(1)
    path = written(tmp_path, file_of(header, events[:30]) + damage)
    recording = opened(path)
    assert index_all(recording) == 30 and recording.damage is None
    with path.open("ab") as file:
        file.write(encode_event(events[30]))
    assert index_all(recording) == 0
    assert recording.damage is not None and f"{path} is damaged at line 32" in recording.damage


def test_a_line_longer_than_a_batch_is_read_whole(tmp_path):
    engine = WatchedEngine(num_blocks=30_000, max_model_len=120_000, max_num_batched_tokens=120_000)
    path = tmp_path / "log.jsonl"
    with LogWriter(path, engine.engine.log_header()) as log:
        engine.engine.subscribe(log.write)
        engine.add("long", [7] * 100_000)
    recording = opened(path)
    assert index_all(recording) == 2
    assert len(recording.head.requests["long"].prompt_token_ids) == 100_000


def test_a_truncated_file_gives_a_sentence_and_not_a_wrong_picture(tmp_path):
    path = written(tmp_path, file_of(*trace(7)))
    recording = opened(path)
    index_all(recording)
    path.write_bytes(path.read_bytes()[:1000])
    assert recording.index_more(1) == 0 and "became shorter" in recording.damage
    with pytest.raises(EventLogError, match="became shorter"):
        recording.view_at_event(len(recording))
