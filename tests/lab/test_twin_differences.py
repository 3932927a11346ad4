"""Two recordings of one trace: the first decision that differs, and whether that is intended."""

from collections.abc import Iterable
from pathlib import Path

import pytest
from msgspec.structs import replace
from support.vllm.random_traces import random_trace

from minivllm.errors import SimulationError
from minivllm.events import types as ev
from minivllm.events.recording.lines import encode_header
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.reader import LogReader
from minivllm.lab.twin.difference import differences
from minivllm.lab.twin.ours import run_ours
from minivllm.lab.twin.rules import RULES, Intended
from minivllm.lab.twin.trace import TwinTrace, read_trace

SEEDS = {"usual": 3, "full-hit": 40, "goes-on": 47, "late-hashes": 54, "several": 27}


@pytest.fixture(scope="module")
def ours(tmp_path_factory) -> Path:
    return recorded(random_trace(SEEDS["usual"]), tmp_path_factory.mktemp("twin") / "ours.jsonl")


def recorded(trace: TwinTrace, path: Path, rules: Iterable[Intended] = ()) -> Path:
    run_ours(trace, path, rules)
    return path


def changed(path: Path, to: Path, change) -> Path:
    """A recording in which `change` has replaced some events."""
    reader = LogReader(path)
    with LogWriter(to, reader.header) as writer:
        for number, event in enumerate(one for old in reader for one in change(old)):
            writer.write(replace(event, seq=number))
    return to


def test_a_recording_of_a_trace_gives_the_trace_again(ours):
    trace, again = random_trace(SEEDS["usual"]), read_trace(ours)
    for old, new in zip(trace.requests, again.requests, strict=True):
        assert (old.name, old.prompt_token_ids) == (new.name, new.prompt_token_ids)
        if new.abort_step is None:
            assert old.output_token_ids == new.output_token_ids
    assert any(request.abort_step is not None for request in again.requests)
    assert again.num_blocks == trace.num_blocks


def test_a_stop_string_of_a_vllm_is_an_abort_and_during_a_step_minivllm_has_none(ours, tmp_path):
    reader = LogReader(ours)
    of_vllm = {"source": "vLLM 0.32.0", "config": {"async_scheduling": False}}
    with LogWriter(tmp_path / "vllm.jsonl", replace(reader.header, **of_vllm)) as writer:
        for event in reader:
            found = {"stop_reason": "."} if isinstance(event, ev.RequestFinished) else {}
            writer.write(replace(event, **found))
    trace = read_trace(tmp_path / "vllm.jsonl")
    assert all(request.abort_step is not None for request in trace.requests)
    assert not trace.is_vllms, "so vLLM's scheduler runs, and aborts between two steps, too"


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.id)
def test_a_rule_explains_only_a_scheduler_that_follows_it(rule, tmp_path):
    trace = random_trace(SEEDS[rule.id])
    (found,) = differences(trace, recorded(trace, tmp_path / "theirs.jsonl", [rule]))
    assert found.intended is rule and f"({rule.id}, decision " in str(found)
    assert list(differences(trace, recorded(trace, tmp_path / "ours.jsonl"))) == []


def test_differences_are_found_up_to_one_that_no_rule_explains(tmp_path):
    trace = random_trace(SEEDS["several"])
    theirs = recorded(trace, tmp_path / "theirs.jsonl", RULES)
    waits = [event for event in LogReader(theirs) if isinstance(event, ev.RequestDeferred)]
    changed(theirs, other := tmp_path / "other.jsonl", lambda event: [event] * (event != waits[-1]))
    *explained, last = differences(trace, other)
    assert [found.intended.id for found in explained] == ["late-hashes", "goes-on"]
    assert (last.step, last.fact, last.intended) == (waits[-1].step, "waits", None)
    assert waits[-1].reason in str(last) and "vLLM: none" in str(last)
    assert "No intended difference" in str(last)


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
