"""Recordings survive accidents, refuse foreign files, and open at any step."""

import json
import random
from io import BytesIO
from itertools import groupby
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace
from support.engine.engine_fakes import WatchedEngine

from minivllm.errors import EventLogError
from minivllm.events.fold import fold
from minivllm.events.perfetto import export_perfetto
from minivllm.events.recording.compact import StepDecodes, TokensSampled
from minivllm.events.recording.keyframes import Keyframes
from minivllm.events.recording.lines import encode_event, encode_header, encode_state
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.reader import LogReader
from minivllm.events.recording.recording import Recording
from minivllm.events.types import RequestArrived

_HEADER = WatchedEngine().engine.log_header()


def many_keyframes(path: Path) -> Recording:
    """Opened so that seeks start from keyframes all over a short log."""
    return Recording(path, keyframes=Keyframes(spacing=5000))


def written(tmp_path: Path, lines: list[bytes]) -> Path:
    path = tmp_path / "changed.jsonl"
    path.write_bytes(b"".join(lines))
    return path


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """A run of some thousand events, its file, and the true state after every step."""
    engine = WatchedEngine(num_blocks=10)
    path = tmp_path_factory.mktemp("recorded") / "run.jsonl"
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
    assert list(recording.events(0, len(recording))) == engine.events and len(recording) > 2000
    assert (recording.first_step, recording.last_step) == (0, engine.fold.step)
    steps = list(states)[1:]
    random.Random(0).shuffle(steps)
    for step in steps[:60]:
        assert msgspec.json.encode(recording.view_at_step(step).state) == states[step]


def test_a_request_is_found_without_reading_an_event(recorded):
    engine, path, _ = recorded
    recording = Recording(path)
    recording.close()
    arrived = {
        event.request_id: index
        for index, event in enumerate(engine.events)
        if isinstance(event, RequestArrived)
    }
    assert len(arrived) > 3
    assert {name: recording.arrival(name) for name in arrived} == arrived
    assert recording.arrival("nobody") is None


def test_unknown_kinds_and_fields_are_skipped(recorded, tmp_path):
    engine, path, _ = recorded
    lines = path.read_bytes().splitlines(keepends=True)
    lines[1] = lines[1].replace(b'"seq"', b'"mood":"good","seq"', 1)
    newer = b'{"ev":"block.teleported","seq":%d,"step":9999,"t":0.0}\n' % len(engine.events)
    recording = Recording(written(tmp_path, [*lines, newer]))
    assert len(recording) == len(engine.events)
    assert recording.view_at_event(len(recording)).state == engine.fold.state


def test_a_header_with_impossible_numbers_is_refused(recorded, tmp_path):
    header, *lines = recorded[1].read_bytes().splitlines(keepends=True)
    for field, value in (("num_blocks", 10**9), ("block_size", -3), ("max_num_seqs", 0)):
        changed = msgspec.json.encode({**msgspec.json.decode(header), field: value}) + b"\n"
        sentence = f"{field} in its header must be from 1 to [0-9,]+; got {value:,}"
        with pytest.raises(EventLogError, match=sentence):
            Recording(written(tmp_path, [changed, *lines]))


@pytest.mark.parametrize(
    ("kind", "field", "value", "why"),
    [
        *(("request.arrived", "prompt_token_ids", [n], "too large or neg") for n in (-1, 2**32)),
        *(("token.sampled", "token_id", n, "too large or negative") for n in (-1, 2**32)),
        *(
            (f"block.{verb}", "block_id", 999, "cannot be applied: an earlier event is missing")
            for verb in ("freed", "released", "hit")
        ),
        ("block.allocated", "seq_id", "nobody", "cannot be applied: an earlier event is missing"),
    ],
)
def test_all_is_shown_up_to_an_impossible_number(recorded, tmp_path, kind, field, value, why):
    engine, path, _ = recorded
    lines = path.read_bytes().splitlines(keepends=True)
    at = next(i for i in range(20, len(lines)) if f'"{kind}"'.encode() in lines[i])
    lines[at] = msgspec.json.encode(msgspec.json.decode(lines[at]) | {field: value}) + b"\n"
    path = written(tmp_path, lines)
    recording = Recording(path, index=False)
    recording.index_more(float("inf"))
    assert len(recording) == at - 1 and why in recording.damage
    assert f"is damaged at line {at + 1}: " in recording.damage and recording.index_more(1) == 0
    before = fold(recording.header, engine.events[: at - 1]).state
    assert recording.head.state == recording.view_at_event(at - 1).state == before
    export_perfetto(path, BytesIO())  # until the damage


@pytest.mark.parametrize("token_id", [-1, 2**32])
def test_a_state_with_a_token_id_that_no_model_has_is_damage(tmp_path, token_id):
    engine = WatchedEngine()
    engine.add("ada", [1, 2, 3])
    engine.step()
    state = engine.engine.inspect()
    state.requests["ada"].prompt_token_ids[0] = token_id
    later = [encode_event(event) for event in engine.events[-2:]]
    header = encode_header(engine.engine.log_header())
    recording = Recording(written(tmp_path, [header, encode_state(state), *later]), index=False)
    recording.index_more(float("inf"))
    assert len(recording) == 0 and recording.damage


@pytest.mark.parametrize("new", [b"x", b'{"seq":1}\n'])
def test_a_file_that_is_overwritten_while_open_gives_a_sentence(recorded, tmp_path, new):
    _, path, _ = recorded
    changed = written(tmp_path, [path.read_bytes()])
    recording = Recording(changed)
    with open(changed, "r+b") as file:
        file.write((new * path.stat().st_size)[: path.stat().st_size])
    with pytest.raises(EventLogError, match=r"changed\.jsonl was changed while it was read"):
        recording.view_at_event(len(recording) // 2)


def test_keyframes_after_a_gap_remember_it(recorded, tmp_path):
    engine, path, _ = recorded
    lines = path.read_bytes().splitlines(keepends=True)
    last = engine.events[59]
    gap = b'{"ev":"log.gap","seq":%d,"step":%d,"t":0.0,"lost":10}\n' % (last.seq, last.step)
    recording = many_keyframes(written(tmp_path, [*lines[:51], gap, *lines[61:]]))
    assert len(recording) > 2000
    before = recording.view_at_event(50).state
    for count in (60, 1001, len(recording)):
        view = recording.view_at_event(count)
        assert (view.lost_events, view.state) == (10, before)


@pytest.mark.parametrize(
    "content, sentence",
    [
        (b"", "empty or incomplete"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not a minivllm recording"),
        (b'{"a": 1}\n', "not a minivllm recording"),
        (encode_header(replace(_HEADER, schema="other.log")), "'other.log' file, not a minivllm"),
        (encode_header(replace(_HEADER, version=99)), "upgrade minivllm"),
    ],
    ids=["empty", "picture", "other JSON", "another schema", "a newer format"],
)
def test_a_foreign_file_is_refused_with_a_sentence(tmp_path, content, sentence):
    with pytest.raises(EventLogError, match=sentence):
        Recording(written(tmp_path, [content]))


def test_the_file_on_disk_is_complete_after_each_step(tmp_path):
    engine = WatchedEngine()
    path = tmp_path / "killed.jsonl"
    log = LogWriter(path, engine.engine.log_header())
    engine.engine.subscribe(log.write)
    engine.add("a", [1, 2, 3], max_tokens=5)
    for _ in range(3):
        engine.step()
    # No close(), as if the process had been killed here.
    assert Recording(path).view_at_step(3).state == engine.engine.inspect()
    log.close()


def compacted(path: Path, to: Path) -> int:
    """Write the recording with one line for neighbouring decodes or tokens; return their number."""
    kinds = {"step.scheduled": StepDecodes, "token.sampled": TokensSampled}

    def key(line: dict) -> tuple:
        plain = line["ev"] == "token.sampled" or line.get("kind") == "decode"
        return (line["ev"], line["step"], line["t"]) if plain else (line["seq"],)

    lines, written = [json.loads(one) for one in path.read_bytes().splitlines()], []
    for name, group in groupby(lines[1:], key=key):
        first, *rest = group
        if not rest and len(name) == 1:
            written.append(msgspec.json.encode(first) + b"\n")
            continue
        fields = {"seq_ids": [one["seq_id"] for one in (first, *rest)]}
        if first["ev"] == "token.sampled":
            fields["token_ids"] = [one["token_id"] for one in (first, *rest)]
            fields["texts"] = [one["text"] for one in (first, *rest)]
        else:
            fields["num_computed_tokens"] = [one["num_computed_tokens"] for one in (first, *rest)]
        numbers = first["seq"], first["step"], first["t"]
        written.append(encode_event(kinds[first["ev"]](*numbers, **fields)))
    to.write_bytes(msgspec.json.encode(lines[0]) + b"\n" + b"".join(written))
    return len(lines) - 1 - len(written)


def test_lines_that_stand_for_many_events_give_the_same_events_at_any_step(recorded, tmp_path):
    engine, path, states = recorded
    assert compacted(path, tmp_path / "compact.jsonl") > 200
    recording = many_keyframes(tmp_path / "compact.jsonl")
    assert list(recording.events(0, len(recording))) == engine.events
    assert list(LogReader(tmp_path / "compact.jsonl")) == engine.events
    for step in list(states)[5::9]:
        assert msgspec.json.encode(recording.view_at_step(step).state) == states[step]
    middle = len(recording) // 2
    assert list(recording.events(middle, middle + 7)) == engine.events[middle : middle + 7]
