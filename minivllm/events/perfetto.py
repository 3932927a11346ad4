"""Export a recording as a Chrome trace, for ui.perfetto.dev.

    steps        a slice for each step, with its schedule, prepare, model and sample phases
    decisions    arrivals, reasons to wait, preemptions, forks, copies, evictions and ends
    slot 0 ...   a slice for each step of the sequence in this batch slot
    counters     blocks, sequences, and use of the token budget

Times are whole microseconds since the recording began. On the virtual clock a step takes no time:
it is drawn as one millisecond, and its decisions one microsecond apart.

After a gap the engine's state is unknown, so only steps and decisions are drawn.

Source: the Trace Event Format (Google): `X` is a slice, `i` an instant, `C` a counter, `M` a name.
"""

from itertools import pairwise
from pathlib import Path
from typing import BinaryIO, NamedTuple

import msgspec

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.kv_usage import pool_use
from minivllm.events.recording.reader import LogReader

STEPS, DECISIONS, FIRST_SLOT = 1, 2, 10
"""Track numbers, in the order in which a viewer shows the tracks."""
STEP_US = 1000
"""Drawn length of a step on the virtual clock, in microseconds."""
LONGEST_TEXT = 1000
"""Number of characters to which a longer prompt is cut."""
VIRTUAL = (
    "The engine ran on the virtual clock, where a step takes no time: each step is drawn as 1 ms."
    " Only the order of events is meaningful."
)
DECISION_NAMES: dict[type[ev.Event], str] = {
    ev.RequestArrived: "arrive",
    ev.RequestDeferred: "wait",
    ev.RequestPreempted: "preempt",
    ev.RequestResumed: "resume",
    ev.RequestForked: "fork",
    ev.RequestFinished: "finish",
    ev.RequestAborted: "abort",
    ev.BeamPruned: "prune",
    ev.BlockCopied: "copy",
    ev.BlockEvicted: "evict",
    ev.OptionChanged: "set option",
    ev.InvariantViolated: "invariant violated",
    ev.Gap: "gap",
}


class Exported(NamedTuple):
    steps: int
    """Number of whole steps."""
    events: int
    lost_events: int
    damage: str | None
    """Where the log is damaged, or None. The trace has all events before the damaged line."""


def export_perfetto(log: str | Path, file: BinaryIO) -> Exported:
    """Write the recording `log` to `file`. Raise `EventLogError` if it is not a recording."""
    reader = LogReader(log)
    trace = _Trace(reader.header, file)
    for event in reader:
        trace.apply(event)
    result = Exported(trace.num_steps, trace.num_events, trace.lost_events, reader.damage)
    trace.close(result._asdict())
    return result


class _Trace:
    def __init__(self, header: ev.LogHeader, file: BinaryIO) -> None:
        self.num_steps = self.num_events = self.lost_events = 0
        self._header, self._file = header, file
        self._fold: Fold | None = Fold(header)
        """None once the state is unknown."""
        self._step: ev.StepBegin | None = None
        """The current step; None between two steps."""
        self._now = self._began = 0
        """The last drawn time, which never goes back, and the start of the current step."""
        self._turns: dict[str, dict[str, object]] = {}
        """The slices of the current step's sequences, without their end."""
        self._counters: dict[str, dict[str, int]] = {}
        file.write(b'{"displayTimeUnit":"ms","traceEvents":[')
        self._separator = b"\n"
        process = f"minivllm {header.model_and_weights}"
        self._write("M", "process_name", 0, STEPS, args={"name": process})
        slots = {FIRST_SLOT + slot: f"slot {slot}" for slot in range(header.max_num_seqs)}
        for track, name in ({STEPS: "steps", DECISIONS: "decisions"} | slots).items():
            self._write("M", "thread_name", 0, track, args={"name": name})
            self._write("M", "thread_sort_index", 0, track, args={"sort_index": track})

    def close(self, results: dict[str, object]) -> None:
        """End the trace with facts about the recording and the results of the export."""
        about = {
            **msgspec.to_builtins(self._header),
            "time": VIRTUAL if self._header.clock == "virtual" else "The engine's clock.",
            **results,
        }
        self._file.write(b'\n],"otherData":' + msgspec.json.encode(about) + b"}\n")

    def apply(self, event: ev.Event) -> None:
        self.num_events += 1
        now = self._moment(event)
        match event:
            case ev.StepBegin():
                self._step, self._began = event, now
                self._turns.clear()
            case ev.Gap():
                self.lost_events += event.lost
                self._step = self._fold = None
        if type(event) in DECISION_NAMES:
            self._decide(event, now)
        if self._fold is not None:
            try:
                self._fold.apply(event)
                self._follow(event, self._fold)
            except (LookupError, OverflowError, ValueError):
                # A recording that starts in the middle of a run has events of unknown sequences.
                self._fold = None
        if isinstance(event, ev.StepEnd) and self._step is not None:
            self._end_step(event, self._step)

    def _moment(self, event: ev.Event) -> int:
        if self._header.clock != "virtual":
            self._now = max(self._now, _microseconds(event.t - self._header.mono))
        elif self._step is not None:
            self._now = min(self._now + 1, self._began + STEP_US - 1)
        return self._now

    def _decide(self, event: ev.Event, now: int) -> None:
        name = DECISION_NAMES[type(event)]
        if isinstance(event, ev.RequestDeferred):
            known = self._fold.sequences.get(event.seq_id) if self._fold is not None else None
            if known is not None and known.deferred and known.deferred[0] == event.reason:
                return
            name = f"wait: {event.reason}"
        args = {
            field: value[:LONGEST_TEXT] if isinstance(value, str) else value
            for field, value in msgspec.structs.asdict(event).items()
            if isinstance(value, str | int) and field != "seq"
        }
        self._write("i", name, now, DECISIONS, s="t", args=args)

    def _follow(self, event: ev.Event, fold: Fold) -> None:
        """Collect what the current step does for each sequence."""
        match event:
            case ev.StepScheduled():
                sequence = fold.sequences[event.seq_id]
                args = {
                    "sequence": event.seq_id,
                    "tokens": event.num_tokens,
                    "kind": event.kind,
                    "computed": event.num_computed_tokens,
                    "blocks": len(sequence.block_table),
                }
                self._turns[event.seq_id] = {"track": FIRST_SLOT + sequence.slot, "args": args}
            case ev.DraftProposed():
                self._turns[event.seq_id]["args"]["drafts"] = len(event.token_ids)
            case ev.DraftVerified():
                self._turns[event.seq_id]["args"]["accepted_drafts"] = event.num_accepted

    def _end_step(self, event: ev.StepEnd, step: ev.StepBegin) -> None:
        self._step = None
        begin, is_virtual = self._began, self._header.clock == "virtual"
        end = self._now = begin + STEP_US if is_virtual else max(self._now, begin + 1)
        args = {"step": step.step, "budget": step.budget, "used": event.used}
        self._slice(STEPS, f"step {step.step}", begin, end, args)
        # Planning is at the start of the step; the other phases are at its end. The time between
        # was spent on the engine's checks, or on pauses in a step that runs phase by phase.
        edge = min(begin + _microseconds(event.t_schedule), end)
        self._slice(STEPS, "schedule", begin, edge)
        lengths = event.t_prepare, event.t_model, event.t_sample
        edges = [max(end - _microseconds(sum(lengths[at:])), edge) for at in range(4)]
        for name, (start, stop) in zip(
            ("prepare", "model", "sample"), pairwise(edges), strict=True
        ):
            self._slice(STEPS, name, start, stop)
        for seq_id, turn in self._turns.items():
            self._slice(turn["track"], seq_id.removesuffix(".0"), begin, end, turn["args"])
        self._count("token budget", {"used": event.used})
        if self._fold is not None:
            running, waiting = len(self._fold.running), len(self._fold.waiting)
            self._count("sequences", {"running": running, "waiting": waiting})
            self._count("blocks", pool_use(self._fold)._asdict())
        self.num_steps += 1

    def _slice(
        self, track: int, name: str, start: int, end: int, args: dict[str, object] | None = None
    ) -> None:
        if end > start:
            self._write("X", name, start, track, dur=end - start, args=args or {})

    def _count(self, name: str, values: dict[str, int]) -> None:
        if self._counters.get(name) != values:
            self._counters[name] = values
            self._write("C", name, self._now, STEPS, args=values)

    def _write(self, ph: str, name: str, ts: int, tid: int, **fields: object) -> None:
        record = {"ph": ph, "name": name, "pid": 1, "tid": tid, "ts": ts, **fields}
        self._file.write(self._separator + msgspec.json.encode(record))
        self._separator = b",\n"


def _microseconds(seconds: float) -> int:
    return max(0, round(seconds * 1e6))
