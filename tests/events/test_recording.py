"""Recordings survive accidents, refuse what is not theirs, and open at any step."""

import random
from pathlib import Path

import msgspec
import pytest
from support.engine.engine_fakes import WatchedEngine

from minivllm.errors import EventLogError
from minivllm.events.fold import Fold
from minivllm.events.recording.keyframes import Keyframes
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.events.types import Gap, RequestArrived


def many_keyframes(path: Path) -> Recording:
    """Opened so that seeks start from keyframes all over a short log."""
    return Recording(path, keyframes=Keyframes(spacing=5000))


@pytest.fixture
def recorded(tmp_path):
    """A run of some thousand events, its file, and the true state after every step."""
    engine = WatchedEngine(num_blocks=10)
    path = tmp_path / "run.jsonl"
    states = {0: msgspec.json.encode(engine.engine.inspect())}
    with LogWriter(path, engine.engine.log_header()) as log:
        engine.engine.subscribe(log.write)
        for i in range(40):
            engine.add(f"r{i}", [*range(i % 7), 20 + i], max_tokens=12)
        while engine.engine.has_unfinished_requests():
            engine.step()
            states[engine.fold.step] = msgspec.json.encode(engine.engine.inspect())
    return engine, path, states


def test_a_recording_shows_the_true_state_after_any_step(recorded):
    engine, path, states = recorded
    recording = many_keyframes(path)
    assert len(recording) == len(engine.events) > 2000
    assert (recording.first_step, recording.last_step) == (0, engine.fold.step)
    steps = list(states)[1:]
    random.Random(0).shuffle(steps)
    for step in steps[:60]:
        assert msgspec.json.encode(recording.view_at_step(step).state) == states[step]


def test_a_recording_shows_the_state_after_any_event(recorded):
    engine, path, _ = recorded
    recording = many_keyframes(path)
    truth = Fold(recording.header)
    for count, event in enumerate(engine.events, start=1):
        truth.apply(event)
        if count % 97 == 0:
            assert recording.view_at_event(count).state == truth.state


def test_the_events_read_back_are_the_events_written(recorded):
    engine, path, _ = recorded
    recording = Recording(path)
    assert list(recording.events(0, len(recording))) == engine.events
    assert list(recording.events(recording.step_begin(3), recording.step_end(3))) == [
        event for event in engine.events if event.step == 3
    ]


def test_a_request_is_found_without_reading_an_event(recorded):
    engine, path, _ = recorded
    recording = Recording(path)
    recording.close()
    arrived = {one.request_id: index for index, one in enumerate(engine.events) if isinstance(one, RequestArrived)}
    assert len(arrived) > 3
    assert {name: recording.arrival(name) for name in [*arrived, "nobody"]} == {**arrived, "nobody": None}


def test_a_torn_last_line_ends_the_log(recorded, tmp_path):
    engine, path, _ = recorded
    torn = tmp_path / "torn.jsonl"
    torn.write_bytes(path.read_bytes()[:-20])
    assert len(Recording(torn)) == len(engine.events) - 1
    torn.write_bytes(path.read_bytes()[:-20] + b"\n")
    assert len(Recording(torn)) == len(engine.events) - 1


def test_unknown_kinds_and_fields_are_skipped(recorded, tmp_path):
    engine, path, _ = recorded
    lines = path.read_bytes().splitlines(keepends=True)
    newer = tmp_path / "newer.jsonl"
    newer.write_bytes(
        lines[0]
        + lines[1].replace(b'"seq"', b'"mood":"good","seq"', 1)
        + b"".join(lines[2:])
        + b'{"ev":"block.teleported","seq":%d,"step":9999,"t":0.0,"where":"elsewhere"}\n' % len(engine.events)
    )
    recording = Recording(newer)
    assert len(recording) == len(engine.events)
    assert recording.view_at_event(len(recording)).state == engine.fold.state


def test_a_damaged_line_in_the_middle_is_an_error_and_not_a_wrong_picture(recorded, tmp_path):
    _, path, _ = recorded
    lines = path.read_bytes().splitlines(keepends=True)
    damaged = tmp_path / "damaged.jsonl"
    damaged.write_bytes(b"".join([*lines[:5], b'{"ev":"block.\x00\n', *lines[6:]]))
    with pytest.raises(EventLogError, match="damaged"):
        Recording(damaged)


@pytest.mark.parametrize(
    ("field", "value"),
    [("num_blocks", -3), ("num_blocks", 10**9), ("block_size", 0), ("max_num_seqs", 0), ("max_num_batched_tokens", 0)],
)
def test_a_header_with_impossible_numbers_is_refused(recorded, tmp_path, field, value):
    _, path, _ = recorded
    header, *lines = path.read_bytes().splitlines(keepends=True)
    changed = msgspec.json.encode({**msgspec.json.decode(header), field: value}) + b"\n"
    with pytest.raises(EventLogError, match=f"its header says {field} {value:,}, where only 1 to [0-9,]+ can be"):
        Recording(written(tmp_path, [changed, *lines]))


@pytest.mark.parametrize("new", [b"x", b"\n", b"\xff", b'{"seq":1}\n'])
def test_a_file_that_is_overwritten_while_it_is_shown_ends_in_a_sentence(recorded, tmp_path, new):
    _, path, _ = recorded
    changed = written(tmp_path, [path.read_bytes()])
    recording = Recording(changed)
    with open(changed, "r+b") as file:
        file.write((new * path.stat().st_size)[: path.stat().st_size])
    with pytest.raises(EventLogError, match=r"changed\.jsonl was changed while it was read"):
        recording.view_at_event(len(recording) // 2)


def written(tmp_path: Path, lines: list[bytes]) -> Path:
    """A recording of these lines."""
    path = tmp_path / "changed.jsonl"
    path.write_bytes(b"".join(lines))
    return path


@pytest.mark.parametrize("missing", [1, 7, 300, -2])
def test_a_missing_line_is_noticed_and_named(recorded, tmp_path, missing):
    _, path, _ = recorded
    lines = path.read_bytes().splitlines(keepends=True)
    del lines[missing]
    holed = written(tmp_path, lines)
    with pytest.raises(EventLogError, match=r"damaged at line \d+: event \d+ should stand there"):
        Recording(holed)


def test_a_known_kind_with_a_wrong_field_is_damage_and_not_an_unknown_kind(recorded, tmp_path):
    _, path, _ = recorded
    lines = path.read_bytes().splitlines(keepends=True)
    number = next(i for i, line in enumerate(lines) if b'"block.allocated"' in line)
    lines[number] = lines[number].replace(b'"block_id":', b'"block_id":"x","was":', 1)
    damaged = written(tmp_path, lines)
    with pytest.raises(EventLogError, match=f"damaged at line {number + 1}"):
        Recording(damaged)


def test_a_gap_is_remembered_by_the_keyframes_after_it(recorded, tmp_path):
    engine, path, _ = recorded
    lines = path.read_bytes().splitlines(keepends=True)
    last_lost = engine.events[59]
    gap = b'{"ev":"log.gap","seq":%d,"step":%d,"t":0.0,"lost":10}\n' % (last_lost.seq, last_lost.step)
    gapped = tmp_path / "gapped.jsonl"
    gapped.write_bytes(b"".join([*lines[:51], gap, *lines[61:]]))
    recording = many_keyframes(gapped)
    assert len(recording) > 2000
    before = recording.view_at_event(50).state
    for count in (60, 1001, len(recording)):
        view = recording.view_at_event(count)
        assert (view.lost_events, view.state) == (10, before)


def test_a_log_without_events_opens_as_an_idle_engine(tmp_path):
    engine = WatchedEngine()
    path = tmp_path / "idle.jsonl"
    LogWriter(path, engine.engine.log_header()).close()
    recording = Recording(path)
    assert len(recording) == 0
    assert recording.view_at_step(5).state == engine.engine.inspect()


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"", "empty or was cut off"),
        (b"hello\n", "not a minivllm recording"),
        (b'{"a": 1}\n', "not a minivllm recording"),
    ],
)
def test_a_foreign_file_is_refused_with_a_sentence(tmp_path, content, sentence):
    path = tmp_path / "foreign.jsonl"
    path.write_bytes(content)
    with pytest.raises(EventLogError, match=sentence):
        Recording(path)


def test_a_newer_format_is_refused_with_the_advice_to_upgrade(tmp_path):
    header = msgspec.structs.replace(WatchedEngine().engine.log_header(), version=99)
    path = tmp_path / "newer.jsonl"
    LogWriter(path, header).close()
    with pytest.raises(EventLogError, match="upgrade minivllm"):
        Recording(path)


def test_a_missing_file_is_refused_with_a_sentence(tmp_path):
    with pytest.raises(EventLogError, match="cannot be read"):
        Recording(tmp_path / "nothing.jsonl")


def test_what_is_on_disk_after_each_step_is_whole(tmp_path):
    engine = WatchedEngine()
    path = tmp_path / "killed.jsonl"
    log = LogWriter(path, engine.engine.log_header())
    engine.engine.subscribe(log.write)
    engine.add("a", [1, 2, 3], max_tokens=5)
    for _ in range(3):
        engine.step()
    # No close(): as if the process had been killed here.
    assert Recording(path).view_at_step(3).state == engine.engine.inspect()
    log.close()


def test_a_full_disk_becomes_a_gap_and_the_engine_goes_on(tmp_path):
    engine = WatchedEngine()
    path = tmp_path / "full.jsonl"
    log = LogWriter(path, engine.engine.log_header())
    engine.engine.subscribe(log.write)
    engine.add("a", [1, 2, 3], max_tokens=6)
    engine.step()
    before_the_gap = engine.engine.inspect()
    real_file = log._file

    class FullDisk:
        """Takes half of what it is given, as a disk does that fills up."""

        def write(self, data):
            return real_file.write(data[: len(data) // 2])

        truncate, seek, close = real_file.truncate, real_file.seek, real_file.close

    log._file = FullDisk()
    engine.step()
    engine.step()
    log._file = real_file
    engine.run()
    with pytest.raises(EventLogError, match="from step 2 on"):
        log.close()
    num_lost = len([event for event in engine.events if event.step in (2, 3, 4)])
    recording = Recording(path)
    gaps = [event for event in recording.events(0, len(recording)) if isinstance(event, Gap)]
    assert [gap.lost for gap in gaps] == [num_lost] and gaps[0].step == 4
    view = recording.view_at_event(len(recording))
    assert view.lost_events == num_lost
    assert view.state == before_the_gap, "after a gap a fold shows the last thing it knew, and no guess"


def test_a_recording_that_cannot_be_written_is_refused_before_the_run(tmp_path):
    with pytest.raises(EventLogError, match="cannot be written"):
        LogWriter(tmp_path / "no such folder" / "x.jsonl", WatchedEngine().engine.log_header())
