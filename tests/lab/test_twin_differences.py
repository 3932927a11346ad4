"""Two recordings of one trace: the first decision that differs, and whether that is intended."""

from collections import defaultdict
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.vllm.random_traces import random_trace

from minivllm.errors import SimulationError
from minivllm.events import types as ev
from minivllm.events.recording.lines import encode_header
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.reader import LogReader
from minivllm.lab.twin.difference import (
    FULL_HIT,
    GOES_ON,
    LATE_HASHES,
    differences,
    intended,
    summary,
)
from minivllm.lab.twin.ours import run_ours
from minivllm.lab.twin.trace import read_trace

SEED = 3


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("twin") / "ours.jsonl"
    run_ours(random_trace(SEED), path)
    return path


def changed(path: Path, to: Path, change) -> Path:
    """A recording in which `change` has replaced some events."""
    reader = LogReader(path)
    with LogWriter(to, reader.header) as writer:
        for number, event in enumerate(one for old in reader for one in change(old)):
            writer.write(replace(event, seq=number))
    return to


def test_a_recording_of_a_trace_gives_the_trace_again(ours):
    trace, again = random_trace(SEED), read_trace(ours)
    for old, new in zip(trace.requests, again.requests, strict=True):
        assert (old.name, old.prompt_token_ids) == (new.name, new.prompt_token_ids)
        if new.abort_step is None:
            assert old.output_token_ids == new.output_token_ids
    assert any(request.abort_step is not None for request in again.requests)
    assert again.num_blocks == trace.num_blocks


def test_equal_recordings_have_no_difference(ours):
    assert differences(ours, ours) == []


def test_the_first_different_decision_is_found_with_both_sides(ours, tmp_path):
    seen = []

    def withhold(event: ev.Event) -> list[ev.Event]:
        if isinstance(event, ev.RequestDeferred) and not seen:
            seen.append(event)
            return []
        return [event]

    found = differences(ours, changed(ours, tmp_path / "other.jsonl", withhold))
    assert [one.fact for one in found] == ["waits"] and found[0].step == seen[0].step
    assert seen[0].reason in str(found[0]) and "vLLM: none" in str(found[0])
    assert "No intended difference" in str(found[0]) and "1 step" in summary(found)


FULL = {"admitted": [("a", 8)], "scheduled": [("a", 7, 8)]}
HEAD, TAIL = "freed at the head", "freed at the tail"
TWICE = {"preempted": [("b", "b")], "scheduled": [("a", 7, 8)]}


@pytest.mark.parametrize(
    ("rule", "fact", "ours", "theirs"),
    [
        (FULL_HIT, "admitted", FULL, {"admitted": [("a", 4)]}),
        (FULL_HIT, "admitted", FULL, {"waits": [("a", "no_blocks")]}),
        (None, "admitted", FULL, {"admitted": [("a", 0)]}),
        (None, "admitted", FULL, {"waits": [("a", "token_budget")]}),
        (None, "admitted", FULL | {"scheduled": [("a", 4, 8)]}, {"admitted": [("a", 4)]}),
        (LATE_HASHES, HEAD, {HEAD: [5, 3]}, {HEAD: [5], TAIL: [3], "late": [3]}),
        (LATE_HASHES, "allocated", {HEAD: [3], "allocated": [3]}, {TAIL: [3], "late": [3, 5]}),
        (None, HEAD, {HEAD: [5, 3]}, {HEAD: [5], TAIL: [3], "late": [5]}),
        (None, "allocated", {"allocated": [3]}, {"late": [3]}),
        (None, "hit", {HEAD: [3], "hit": [3]}, {TAIL: [3], "late": [3]}),
        (GOES_ON, "scheduled", TWICE | {"scheduled": [("a", 7, 8), ("c", 0, 4)]}, TWICE),
        (None, "scheduled", TWICE | {"scheduled": [("c", 0, 4)]}, TWICE),
        (None, "scheduled", {"scheduled": [("c", 0, 4)]}, {"preempted": [("b", "a")]}),
    ],
)
def test_an_intended_difference_explains_only_what_it_means(rule, fact, ours, theirs):
    assert intended(fact, defaultdict(list, ours), defaultdict(list, theirs), 4) is rule


def test_a_recording_without_requests_or_tokens_or_a_beginning_is_no_trace(ours, tmp_path):
    def withhold(event: ev.Event) -> list[ev.Event]:
        if isinstance(event, ev.RequestArrived):
            event = replace(event, prompt_token_ids=[0] * len(event.prompt_token_ids))
        return [event]

    empty, rotated = tmp_path / "empty.jsonl", tmp_path / "rotated.jsonl"
    header = LogReader(ours).header
    empty.write_bytes(encode_header(header))
    rotated.write_bytes(encode_header(replace(header, first_seq=9)))
    secret = changed(ours, tmp_path / "secret.jsonl", withhold)
    why = {empty: "nothing to run", rotated: "begins in the middle", secret: "without token ids"}
    for path, words in why.items():
        with pytest.raises(SimulationError, match=words):
            read_trace(path)
