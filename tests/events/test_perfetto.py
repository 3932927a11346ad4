"""Chrome traces of recordings: every history gives a valid trace that matches its events."""

import io
import random
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from support.chrome_checker import CheckedTrace, Slice
from support.engine.engine_fakes import WatchedEngine
from support.engine.random_histories import FLAVOURS, History

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.kv_usage import pool_use
from minivllm.events.perfetto import DECISION_NAMES, STEP_US, export_perfetto
from minivllm.events.recording.log import LogWriter


def exported(log: Path) -> CheckedTrace:
    out = io.BytesIO()
    result = export_perfetto(log, out)
    trace = CheckedTrace(out.getvalue())
    assert (trace.about["steps"], trace.about["events"]) == (result.steps, result.events)
    assert trace.about["lost_events"] == result.lost_events
    assert trace.about["damage"] == result.damage
    return trace


def write_log(path: Path, header: ev.LogHeader, events: Iterable[ev.Event]) -> Path:
    with LogWriter(path, header) as writer:
        for event in events:
            writer.write(event)
    return path


def steps_of(trace: CheckedTrace) -> list[Slice]:
    return [s for s in trace.track("steps") if s.depth == 0]


def turns_of(trace: CheckedTrace) -> list[Slice]:
    slots = [name for name in trace.tracks.values() if name.startswith("slot ")]
    return [s for name in slots for s in trace.track(name)]


def check_against_events(trace: CheckedTrace, header: ev.LogHeader, events: list[ev.Event]) -> None:
    """Check that a trace contains every event once, and that its counters are the fold's."""
    kinds = Counter(type(event) for event in events)
    steps = steps_of(trace)
    begun = [e.step for e in events if isinstance(e, ev.StepBegin)]
    assert [s.args["step"] for s in steps] == begun
    assert [s.args["used"] for s in steps] == [e.used for e in events if isinstance(e, ev.StepEnd)]

    turns = turns_of(trace)
    drafts = [len(e.token_ids) for e in events if isinstance(e, ev.DraftProposed)]
    accepted = [e.num_accepted for e in events if isinstance(e, ev.DraftVerified)]
    assert sum(s.args.get("drafts", 0) for s in turns) == sum(drafts)
    assert sum(s.args.get("accepted_drafts", 0) for s in turns) == sum(accepted)
    parts = ("sequence", "computed", "tokens", "kind")
    drawn = Counter(tuple(s.args[part] for part in parts) for s in turns)
    told = [e for e in events if isinstance(e, ev.StepScheduled)]
    assert drawn == Counter((e.seq_id, e.num_computed_tokens, e.num_tokens, e.kind) for e in told)
    spans = {(s.start, s.end) for s in steps}
    assert all((turn.start, turn.end) in spans and turn.depth == 0 for turn in turns)

    decisions = Counter(record["name"].partition(":")[0] for record in trace.instants)
    waits = decisions.pop("wait", 0)
    assert bool(waits) == bool(kinds[ev.RequestDeferred]) and waits <= kinds[ev.RequestDeferred]
    told = {DECISION_NAMES[kind]: kinds[kind] for kind in DECISION_NAMES if kinds[kind]}
    told.pop("wait", None)
    assert decisions == told

    fold = Fold(header)
    ends = iter(steps)
    for event in events:
        fold.apply(event)
        if isinstance(event, ev.StepEnd):
            end = next(ends).end
            assert trace.counter("blocks", end) == pool_use(fold)._asdict()
            crowd = {"running": len(fold.running), "waiting": len(fold.waiting)}
            assert trace.counter("sequences", end) == crowd
            assert trace.counter("token budget", end) == {"used": event.used}


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_any_history_of_the_engine_becomes_a_complete_trace(flavour, tmp_path):
    history = History(flavour, 0)
    history.run()
    header, events = header_of(history.engine), history.engine.events
    trace = exported(write_log(tmp_path / "run.jsonl", header, events))
    check_against_events(trace, header, events)


@pytest.fixture(scope="module")
def busy() -> WatchedEngine:
    """A run with sharing, samples, beams, preemptions, evictions and an abort."""
    engine = WatchedEngine(num_blocks=14, max_num_seqs=5)
    for i in range(14):
        params = {"n": 3} if i % 5 == 1 else {"n": 2, "use_beam_search": True} if i % 5 == 3 else {}
        engine.add(f"r{i}", [*range(4 + i % 6), 20 + i % 3], max_tokens=14, **params)
        engine.step()
    engine.engine.abort_request("r11")
    engine.run()
    wanted = {ev.RequestPreempted, ev.BlockEvicted, ev.RequestForked, ev.BlockCopied, ev.BeamPruned}
    assert wanted | {ev.BlockHit} <= {type(event) for event in engine.events}
    return engine


def header_of(engine: WatchedEngine, **changes: object) -> ev.LogHeader:
    return msgspec.structs.replace(engine.engine.log_header(), first_seq=0, mono=0.0, **changes)


def test_on_the_virtual_clock_a_step_is_a_millisecond_and_the_trace_says_so(busy, tmp_path):
    trace = exported(write_log(tmp_path / "run.jsonl", header_of(busy), busy.events))
    steps = steps_of(trace)
    even = [(i * STEP_US, (i + 1) * STEP_US) for i in range(len(steps))]
    assert [(s.start, s.end) for s in steps] == even
    assert "1 ms" in trace.about["time"] and trace.about["clock"] == "virtual"


def test_the_phases_of_a_real_step_have_their_measured_lengths(tmp_path):
    took = {"t_schedule": 0.001, "t_prepare": 0.002, "t_model": 0.004, "t_sample": 0.0015}
    events = [ev.StepBegin(0, 1, 10.0, 8), ev.StepEnd(1, 1, 10.010, 0, **took)]
    header = header_of(WatchedEngine(), clock="monotonic")
    header.mono = 9.0
    trace = exported(write_log(tmp_path / "run.jsonl", header, events))
    assert [(s.name, s.start, s.end) for s in trace.track("steps")] == [
        ("step 1", 1_000_000, 1_010_000),
        ("schedule", 1_000_000, 1_001_000),
        ("prepare", 1_002_500, 1_004_500),
        ("model", 1_004_500, 1_008_500),
        ("sample", 1_008_500, 1_010_000),
    ]


def test_a_log_cut_anywhere_gives_a_valid_trace_of_what_is_there(busy, tmp_path):
    data = write_log(tmp_path / "run.jsonl", header_of(busy), busy.events).read_bytes()
    first_line = data.index(b"\n") + 1
    for size in [first_line, *random.Random(1).sample(range(first_line, len(data)), 15)]:
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(data[:size])
        trace = exported(cut)
        assert trace.about["damage"] is None
        assert trace.about["events"] == data[:size].count(b"\n") - 1
        whole = sum(isinstance(event, ev.StepEnd) for event in busy.events[: trace.about["events"]])
        assert len(steps_of(trace)) == whole


def test_after_a_gap_only_steps_and_decisions_are_drawn(busy, tmp_path):
    at = next(i for i, event in enumerate(busy.events) if event.step == 5)
    gap = ev.Gap(busy.events[at].seq, 5, busy.events[at].t, 1)
    events = [*busy.events[:at], gap, *busy.events[at + 1 :]]
    trace = exported(write_log(tmp_path / "run.jsonl", header_of(busy), events))
    assert trace.about["lost_events"] == 1
    steps = steps_of(trace)
    assert [s.args["step"] for s in steps][-1] == busy.events[-1].step
    assert max(turn.start for turn in turns_of(trace)) < next(
        s.start for s in steps if s.args["step"] > 5
    )
