"""Recordings as Chrome traces: whatever happened, the file is one that a viewer draws right, and it
says what happened.
"""

import io
import random
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.chrome_checker import CheckedTrace
from support.engine.engine_fakes import WatchedEngine
from support.engine.random_histories import FLAVOURS, History

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.kv_usage import pool_use
from minivllm.events.perfetto.drawn_time import STEP_US
from minivllm.events.perfetto.export import export_perfetto
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.reader import LogReader

TRACES = sorted((Path(__file__).parents[2] / "docs/assets/traces").glob("*.jsonl"))
PHASES_OF_A_LIFE = {"queued", "prefill", "decode", "preempted"}


def exported(log: Path) -> CheckedTrace:
    out = io.BytesIO()
    result = export_perfetto(log, out)
    trace = CheckedTrace(out.getvalue())
    assert (trace.about["steps"], trace.about["events"]) == (result.steps, result.events)
    assert (trace.about["lost_events"], trace.about["damage"]) == (
        result.lost_events,
        result.damage,
    )
    return trace


def write_log(path: Path, header: ev.LogHeader, events: Iterable[ev.Event]) -> Path:
    with LogWriter(path, header) as writer:
        for event in events:
            writer.write(event)
    return path


def check_against_events(trace: CheckedTrace, header: ev.LogHeader, events: list[ev.Event]) -> None:
    """A whole trace holds everything that the events tell, once, and its counters are the
    fold's.
    """
    kinds = Counter(type(event) for event in events)
    assert trace.about["state_known_to_the_end"] is True
    steps = [s for s in trace.track("steps") if s.depth == 0]
    assert [s.args["step"] for s in steps] == [
        e.step for e in events if isinstance(e, ev.StepBegin)
    ]
    assert [s.args["used"] for s in steps] == [e.used for e in events if isinstance(e, ev.StepEnd)]
    assert all(s.args["used"] == s.args["prefill"] + s.args["decode"] for s in steps)

    turns = [
        s for name in trace.tracks.values() if name.startswith("slot ") for s in trace.track(name)
    ]
    told = [e for e in events if isinstance(e, ev.StepScheduled)]
    assert Counter(
        (s.args["sequence"], s.args["computed"], s.args["tokens"], s.args["kind"]) for s in turns
    ) == Counter((e.seq_id, e.num_computed_tokens, e.num_tokens, e.kind) for e in told)
    spans = {(s.start, s.end) for s in steps}
    assert all((turn.start, turn.end) in spans and turn.depth == 0 for turn in turns)

    lives = [s for lane in trace.lives.values() for s in lane]
    phases = Counter(s.name for s in lives if s.name in PHASES_OF_A_LIFE)
    assert phases["queued"] == kinds[ev.RequestArrived]
    assert phases["preempted"] == kinds[ev.RequestPreempted]
    outer = [s for s in lives if s.depth == 0]
    assert len(outer) == kinds[ev.RequestArrived] + kinds[ev.RequestForked]
    assert all((s.depth == 1) == (s.name in PHASES_OF_A_LIFE) for s in lives)
    for lane in trace.lives.values():
        for whole in (s for s in lane if s.depth == 0):
            inside = [
                s for s in lane if s.depth == 1 and whole.start <= s.start and s.end <= whole.end
            ]
            assert inside[0].start == whole.start, "a life begins with its first phase"

    requests = [s for s in outer if "prompt" in s.args]
    for fork in (s for s in outer if "parent" in s.args):
        name = fork.args["parent"].rpartition(".")[0]
        assert any(
            r.name == name and r.start <= fork.start and fork.end <= r.end for r in requests
        ), fork
    reasons = Counter(s.args["reason"] for s in lives if "reason" in s.args)
    told = Counter(e.reason for e in events if isinstance(e, ev.RequestFinished))
    told += Counter(pruned=kinds[ev.BeamPruned], abort=kinds[ev.RequestAborted])
    assert reasons == told, "each end is told once"

    decisions = Counter(record["name"].partition(":")[0] for record in trace.instants)
    assert decisions["evict"] == kinds[ev.BlockEvicted]
    assert decisions["copy"] == kinds[ev.BlockCopied]
    assert decisions["fork"] == kinds[ev.RequestForked]
    assert decisions["preempt"] == kinds[ev.RequestPreempted]
    assert (decisions["wait"] > 0) == (kinds[ev.RequestDeferred] > 0)
    check_arrows(trace, events)

    fold = Fold(header)
    ends = iter(steps)
    for event in events:
        fold.apply(event)
        if isinstance(event, ev.StepEnd):
            end = next(ends).end
            assert trace.counter("blocks", end) == pool_use(fold)._asdict()
            assert trace.counter("sequences", end) == {
                "running": len(fold.running),
                "waiting": len(fold.waiting),
            }
            assert trace.counter("token budget", end) == {"used": event.used}


def check_arrows(trace: CheckedTrace, events: list[ev.Event]) -> None:
    """They lead from who had the blocks to who hit them, and no hit of another's block is without
    one.
    """
    resumed = [e.seq_id for e in events if isinstance(e, ev.RequestResumed)]
    arrows = [
        (start["name"], start["args"], source, target) for start, source, target in trace.arrows
    ]
    assert Counter(args["sequence"] for name, args, _, _ in arrows if name == "resume") == Counter(
        resumed
    )
    shared = Counter()
    for name, args, source, target in arrows:
        if name == "resume":
            assert target.args["sequence"] == args["sequence"] and source.end <= target.start
        else:
            assert target.args["sequence"] == args["to"] != args["from"]
            shared.update((target.args["sequence"], block_id) for block_id in args["blocks"])
    hits = Counter((e.seq_id, e.block_id) for e in events if isinstance(e, ev.BlockHit))
    assert shared <= hits
    for seq_id, block_id in hits - shared:
        # Of those without, each found again what it had itself before it was preempted.
        assert seq_id in resumed, (seq_id, block_id)


@pytest.mark.parametrize("flavour", FLAVOURS)
def test_any_history_of_the_engine_becomes_a_trace_that_tells_all_of_it(
    flavour: str, tmp_path: Path
):
    for seed in range(3):
        history = History(flavour, seed)
        history.run()
        header, events = header_of(history.engine), history.engine.events
        check_against_events(
            exported(write_log(tmp_path / "run.jsonl", header, events)), header, events
        )


@pytest.mark.parametrize("log", TRACES, ids=lambda log: log.stem)
def test_each_scenario_becomes_a_trace_that_tells_all_of_it(log: Path):
    stream = LogReader(log)
    check_against_events(exported(log), stream.header, list(stream))


@pytest.fixture(scope="module")
def busy() -> WatchedEngine:
    """A run with everything in it: sharing, samples, beams, preemptions, evictions, an abort."""
    engine = WatchedEngine(num_blocks=14, max_num_seqs=5)
    for i in range(14):
        params = {"n": 3} if i % 5 == 1 else {"n": 2, "use_beam_search": True} if i % 5 == 3 else {}
        engine.add(f"r{i}", [*range(4 + i % 6), 20 + i % 3], max_tokens=14, **params)
        engine.step()
    engine.engine.abort_request("r11")
    engine.run()
    kinds = Counter(type(event) for event in engine.events)
    for kind in (
        ev.RequestPreempted,
        ev.BlockEvicted,
        ev.RequestForked,
        ev.BlockCopied,
        ev.BeamPruned,
        ev.BlockHit,
    ):
        assert kinds[kind], kind
    return engine


def header_of(engine: WatchedEngine, **changes: object) -> ev.LogHeader:
    return msgspec.structs.replace(engine.engine.log_header(), first_seq=0, mono=0.0, **changes)


def test_on_the_virtual_clock_a_step_is_a_millisecond_and_the_trace_says_so(
    busy: WatchedEngine, tmp_path: Path
):
    trace = exported(write_log(tmp_path / "run.jsonl", header_of(busy), busy.events))
    steps = [s for s in trace.track("steps") if s.depth == 0]
    assert [(s.start, s.end) for s in steps] == [
        (i * STEP_US, (i + 1) * STEP_US) for i in range(len(steps))
    ]
    phases = [s.name for s in trace.track("steps") if s.depth == 1]
    assert phases == ["schedule", "prepare", "model", "sample"] * len(steps)
    assert "1 ms" in trace.about["time"] and trace.about["clock"] == "virtual"
    # Things of the plan are drawn in its phase, and what comes of the tokens in the last.
    for record in trace.instants:
        offset = record["ts"] % STEP_US
        if record["name"] in ("preempt", "evict"):
            assert offset < STEP_US / 4


@given(data=st.data())
@settings(max_examples=20)
def test_steps_and_phases_nest_whatever_a_real_clock_says(busy: WatchedEngine, data: st.DataObject):
    seed = data.draw(st.integers(0, 2**32))
    scale = data.draw(st.sampled_from([0.0, 1e-7, 1e-6, 1e-4, 0.3]))
    rng = random.Random(seed)
    now, events = 5_000.0, []
    for event in busy.events[: data.draw(st.integers(1, 600))]:
        now += rng.random() * scale
        times = {
            f"t_{part}": rng.random() * scale * 9
            for part in ("schedule", "prepare", "model", "sample")
        }
        events.append(
            msgspec.structs.replace(
                event, t=now, **(times if isinstance(event, ev.StepEnd) else {})
            )
        )
    header = header_of(busy, clock="monotonic", wall=1.0)
    header.mono = 5_000.0
    with tempfile.TemporaryDirectory() as folder:
        trace = exported(write_log(Path(folder) / "run.jsonl", header, events))
    assert trace.about["state_known_to_the_end"] is True
    phases = [s for s in trace.track("steps") if s.depth == 1]
    steps = [s for s in trace.track("steps") if s.depth == 0]
    assert len(steps) == sum(isinstance(event, ev.StepBegin) for event in events)
    assert all(s.name in ("schedule", "prepare", "model", "sample") for s in phases)
    # Where the clock is coarse enough for it, everything stands where the clock saw it.
    if scale == 0.3:
        begins = [event.t for event in events if isinstance(event, ev.StepBegin)]
        assert [s.start for s in steps] == pytest.approx(
            [(t - 5_000.0) * 1e6 for t in begins], abs=2
        )


def test_the_phases_of_a_real_step_are_as_long_as_it_says(tmp_path: Path):
    events = [
        ev.StepBegin(0, 1, 10.0, 8),
        ev.StepEnd(
            1, 1, 10.010, 0, t_schedule=0.001, t_prepare=0.002, t_model=0.004, t_sample=0.0015
        ),
    ]
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


def test_a_log_cut_anywhere_gives_a_valid_trace_of_what_is_there(
    busy: WatchedEngine, tmp_path: Path
):
    data = write_log(tmp_path / "run.jsonl", header_of(busy), busy.events).read_bytes()
    first_line = data.index(b"\n") + 1
    for size in [first_line, *random.Random(1).sample(range(first_line, len(data)), 15)]:
        cut = tmp_path / "cut.jsonl"
        cut.write_bytes(data[:size])
        trace = exported(cut)
        assert (
            trace.about["damage"] is None and trace.about["events"] == data[:size].count(b"\n") - 1
        )
        cut_off = [s for lane in trace.lives.values() for s in lane if s.args.get("cut_off")]
        fold = Fold(header_of(busy))
        for event in busy.events[: trace.about["events"]]:
            fold.apply(event)
        assert bool(cut_off) == bool(fold.sequences), "who had not ended is marked"


def test_after_a_gap_a_trace_shows_only_what_is_known(busy: WatchedEngine, tmp_path: Path):
    rng = random.Random(2)
    for _ in range(15):
        first = rng.randrange(1, len(busy.events) - 60)
        last = first + rng.randrange(50)
        gap = ev.Gap(last, busy.events[last].step, busy.events[last].t, last - first + 1)
        events = [*busy.events[:first], gap, *busy.events[last + 1 :]]
        trace = exported(write_log(tmp_path / "gapped.jsonl", header_of(busy), events))
        assert (
            trace.about["lost_events"] == gap.lost
            and trace.about["state_known_to_the_end"] is False
        )
        (drawn,) = (record for record in trace.instants if record["name"] == "gap")
        assert drawn["s"] == "g" and drawn["args"] == {"lost_events": gap.lost}
        after = drawn["ts"]
        assert all(s.end <= after for lane in trace.lives.values() for s in lane)
        assert all(
            s.end <= after
            for name in trace.tracks.values()
            if "slot" in name
            for s in trace.track(name)
        )
        still_told = sum(isinstance(event, ev.StepBegin) for event in busy.events[last + 1 :])
        steps = [s for s in trace.track("steps") if s.depth == 0 and s.start >= after]
        assert len(steps) == still_told > 0


def test_what_stands_before_a_damaged_line_is_exported(busy: WatchedEngine, tmp_path: Path):
    log = write_log(tmp_path / "run.jsonl", header_of(busy), busy.events)
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:100], b"%&/\n", *lines[100:]]))
    trace = exported(log)
    assert trace.about["events"] == 99 and "damaged at line 101" in trace.about["damage"]
