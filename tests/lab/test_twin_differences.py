"""Two recordings of one trace: the first decision that differs, and whether that is intended."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from support.vllm.random_traces import random_trace

from minivllm.errors import SimulationError
from minivllm.events import types as ev
from minivllm.events.recording.lines import encode_header
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.reader import LogReader
from minivllm.lab.twin.difference import FULL_HIT, differences, summary
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
    facts = [(one.name, one.prompt_token_ids, one.output_token_ids) for one in again.requests]
    assert facts == [(r.name, r.prompt_token_ids, r.output_token_ids) for r in trace.requests]
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


def test_a_last_block_that_vllm_does_not_look_up_is_intended(ours, tmp_path):
    name = next(one.seq_id for one in LogReader(ours) if isinstance(one, ev.RequestAdmitted))

    def miss(event: ev.Event) -> list[ev.Event]:
        if not isinstance(event, ev.RequestAdmitted) or event.seq_id != name:
            return [event]
        admitted = replace(event, num_cached_tokens=4, num_computed_tokens=4)
        why = "last_block_not_looked_up"
        return [ev.BlockMissed(0, event.step, event.t, name, 1, why), admitted]

    found = differences(ours, changed(ours, tmp_path / "other.jsonl", miss))
    assert found[0].intended is FULL_HIT and "decision 18" in str(found[0])


def test_a_recording_without_tokens_is_no_trace(ours, tmp_path):
    path = tmp_path / "empty.jsonl"
    path.write_bytes(encode_header(LogReader(ours).header))
    with pytest.raises(SimulationError, match="nothing to run"):
        read_trace(path)
