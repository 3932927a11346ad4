"""Export a recording as a Chrome trace, for ui.perfetto.dev.

    steps        a slice for each step, with its schedule, prepare, model and sample phases
    decisions    evictions, copy-on-write, forks, preemptions, and changed reasons to wait
    slot 0 ...   a slice for each step of the sequence in this batch slot (`slot_turns.py`)
    requests     asynchronous slices: the lives of the requests (`request_lives.py`)
    arrows       from a block's donor to the sequence that hits the block, and from a sequence's
                 preemption to its resumption
    counters     blocks, sequences, and use of the token budget

Only the engine's state and one step are in memory at a time. After a gap, the state is unknown: all
open slices end at the gap, and later only data from the events themselves is drawn.
"""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, NamedTuple

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.perfetto.chrome_trace import ChromeTrace
from minivllm.events.perfetto.drawn_time import DrawnPhase, drawn_time
from minivllm.events.perfetto.request_lives import RequestLives
from minivllm.events.perfetto.slot_turns import SlotTurns
from minivllm.events.recording.reader import LogReader

STEPS, DECISIONS = 1, 2
"""Track numbers. The tracks of the slots have higher numbers."""


class Exported(NamedTuple):
    steps: int
    events: int
    lost_events: int
    damage: str | None
    """Where the log is damaged, or None. The trace has all events before the damaged line."""


def export_perfetto(log: str | Path, file: BinaryIO) -> Exported:
    """Write the recording `log` to `file`. Raise `EventLogError` if it is not a recording."""
    stream = LogReader(log)
    trace = ChromeTrace(file)
    converter = _Converter(stream.header, trace)
    try:
        for event in stream:
            converter.apply(event)
        converter.finish("the recording ends here")
    finally:
        # On Ctrl-C, too: half a trace is useful if it is valid JSON.
        stream.close()
        trace.close(converter.about | {"damage": stream.damage})
    return Exported(converter.num_steps, converter.num_events, converter.lost_events, stream.damage)


class _Converter:
    def __init__(self, header: ev.LogHeader, trace: ChromeTrace) -> None:
        self.num_steps = self.num_events = self.lost_events = 0
        self._header = header
        self._trace = trace
        self._fold: Fold | None = Fold(header)
        """None once the state is unknown."""
        self._time = drawn_time(header)
        self._step: ev.StepBegin | None = None
        """The current step; None between two steps."""
        self._step_began = 0
        self._tokens = {"prefill": 0, "decode": 0}
        """How many tokens of each kind are scheduled in this step."""
        self._num_cached = 0
        """How many free blocks have a hash."""
        self._counters: dict[str, dict[str, int]] = {}
        trace.process(f"minivllm {header.model_and_weights}")
        trace.thread(STEPS, "steps")
        trace.thread(DECISIONS, "decisions")
        self._turns = SlotTurns(trace, header.max_num_seqs)
        self._lives = RequestLives(trace)

    @property
    def about(self) -> dict[str, object]:
        header = self._header
        return {
            "minivllm": header.engine,
            "model": header.model,
            "weights": header.weights,
            "time": self._time.note,
            "clock": header.clock,
            "unix_time_at_0": header.wall,
            "num_blocks": header.num_blocks,
            "block_size": header.block_size,
            "max_num_seqs": header.max_num_seqs,
            "max_num_batched_tokens": header.max_num_batched_tokens,
            "scheduling_policy": header.scheduling_policy,
            "steps": self.num_steps,
            "events": self.num_events,
            "lost_events": self.lost_events,
            "state_known_to_the_end": self._fold is not None,
        }

    def apply(self, event: ev.Event) -> None:
        self.num_events += 1
        kind = type(event)
        if kind is ev.StepBegin:
            self._begin_step(event)
        elif kind is ev.StepEnd:
            self._end_step(event)
        elif kind is ev.Gap:
            self._lose_track("events are missing from here on")  # drawn at the last known time
        ts = self._time.moment(event)
        if draw := _WITHOUT_STATE.get(kind):
            draw(self, event, ts)
        if self._fold is None:
            return
        try:
            if draw := _WITH_STATE.get(kind):
                draw(self, event, ts)
            self._fold.apply(event)
        except (LookupError, OverflowError, ValueError):
            # If a recording starts in the middle of a run, it has events of unknown sequences.
            self._lose_track("earlier events are not in the recording")

    def finish(self, why: str) -> None:
        """End all open slices."""
        if self._step is not None:
            self._cut_step(why)
        self._lives.cut_off(self._time.now, why)

    # ---- steps ----

    def _begin_step(self, event: ev.StepBegin) -> None:
        if self._step is not None:
            self._cut_step("its step.end event is missing")
        self._step, self._step_began = event, self._time.begin_step(event)
        self._tokens = {"prefill": 0, "decode": 0}

    def _end_step(self, event: ev.StepEnd) -> None:
        if self._step is not None:  # otherwise the event of the step's start was lost
            phases = self._time.end_step(event)
            self._count("token budget", {"used": event.used})
            self._draw_step(phases, {"used": event.used})

    def _cut_step(self, why: str) -> None:
        self._time.cut_step()
        self._draw_step([], {"cut_off": why})

    def _draw_step(self, phases: list[DrawnPhase], about: dict[str, object]) -> None:
        number, begin, end = self._step.step, self._step_began, self._time.now
        args = {"step": number, "budget": self._step.budget, **about}
        if self._fold is not None:
            args |= {**self._tokens, "sequences": self._turns.num_turns}
            fold, num_free = self._fold, len(self._fold.free_queue)
            used, empty = len(fold.blocks) - num_free, num_free - self._num_cached
            self._count("blocks", {"used": used, "cached": self._num_cached, "empty": empty})
            self._count("sequences", {"running": len(fold.running), "waiting": len(fold.waiting)})
        self._trace.slice(STEPS, "step", f"step {number}", begin, end, args)
        for phase in phases:
            self._trace.slice(STEPS, "phase", phase.name, phase.start, phase.end, {})
        self._turns.draw(end)
        self._trace.flush()
        self._step = None
        self.num_steps += 1

    def _count(self, name: str, values: dict[str, int]) -> None:
        if self._counters.get(name) != values:
            self._counters[name] = values
            self._trace.counter(name, self._time.now, values)

    # ---- requests; the fold applies each event after these methods ----

    def _admitted(self, event: ev.RequestAdmitted | ev.RequestResumed, ts: int) -> None:
        self._lives.turned(event, ts, slot=event.slot, cached_tokens=event.num_cached_tokens)

    def _resumed(self, event: ev.RequestResumed, ts: int) -> None:
        self._admitted(event, ts)
        self._turns.resumed(event.seq_id, ts)

    def _deferred(self, event: ev.RequestDeferred, ts: int) -> None:
        before = self._fold.sequences[event.seq_id].deferred
        if before is None or before[0] != event.reason:
            args = {"sequence": event.seq_id, "need": event.need, "free": event.free}
            self._decide(f"wait: {event.reason}", ts, args)

    def _preempted(self, event: ev.RequestPreempted, ts: int) -> None:
        victim_of, need, free = event.victim_of, event.need, event.free
        self._lives.turned(event, ts, victim_of=victim_of, blocks_needed=need, blocks_free=free)
        args = {"sequence": event.seq_id, "victim_of": victim_of, "need": need, "free": free}
        self._decide("preempt", ts, args)

    def _forked(self, event: ev.RequestForked, ts: int) -> None:
        self._lives.forked(event, ts)
        self._turns.forked(event.seq_id, event.parent)
        self._decide(
            "fork", ts, {"sequence": event.seq_id, "parent": event.parent, "slot": event.slot}
        )

    def _ended(
        self, event: ev.RequestFinished | ev.BeamPruned | ev.RequestAborted, ts: int
    ) -> None:
        self._lives.ended(event, ts, self._fold.sequences[event.seq_id].text)
        self._turns.ended(event.seq_id)

    def _scheduled(self, event: ev.StepScheduled, ts: int) -> None:
        self._lives.turned(event, ts)
        sequence = self._fold.sequences[event.seq_id]
        args = {
            "sequence": event.seq_id,
            "tokens": event.num_tokens,
            "kind": event.kind,
            "computed": event.num_computed_tokens,
            "blocks": len(sequence.block_table),
        }
        self._turns.scheduled(event.seq_id, sequence.slot, self._step_began, args)
        self._tokens[event.kind] += event.num_tokens

    def _drafted(self, event: ev.DraftProposed, ts: int) -> None:
        num_drafts = len(event.token_ids)
        self._turns.add(event.seq_id, drafts=num_drafts, source=event.source)
        self._tokens["draft"] = self._tokens.get("draft", 0) + num_drafts

    def _verified(self, event: ev.DraftVerified, ts: int) -> None:
        self._turns.add(event.seq_id, accepted_drafts=event.num_accepted)

    # ---- blocks ----

    def _hit(self, event: ev.BlockHit, ts: int) -> None:
        self._num_cached -= event.was_free
        # A shared block is at the same position in every block table.
        holders = (
            seq_id
            for seq_id in self._fold.running
            if self._fold.sequences[seq_id].block_table[event.logical : event.logical + 1]
            == [event.block_id]
        )
        owner = None if event.was_free else next(holders, None)
        self._turns.hit(event.seq_id, event.block_id, owner, ts)

    def _released(self, event: ev.BlockReleased, ts: int) -> None:
        self._turns.released(event.seq_id, event.block_id)

    def _freed(self, event: ev.BlockFreed, ts: int) -> None:
        self._num_cached += self._fold.blocks[event.block_id].hash is not None

    def _uncached(self, event: ev.BlockEvicted, ts: int) -> None:
        self._num_cached -= 1

    # ---- drawn even if the state is unknown ----

    def _evicted(self, event: ev.BlockEvicted, ts: int) -> None:
        self._decide("evict", ts, {"block": event.block_id, "hash": event.hash})

    def _copied(self, event: ev.BlockCopied, ts: int) -> None:
        self._decide("copy", ts, {"sequence": event.seq_id, "from": event.src, "to": event.dst})

    def _violated(self, event: ev.InvariantViolated, ts: int) -> None:
        args = {"detail": event.detail}
        self._trace.instant(
            DECISIONS, "problem", f"invariant violated: {event.name}", ts, args, scope="g"
        )

    def _gap(self, event: ev.Gap, ts: int) -> None:
        self.lost_events += event.lost
        self._trace.instant(DECISIONS, "problem", "gap", ts, {"lost_events": event.lost}, scope="g")

    def _decide(self, name: str, ts: int, args: dict[str, object]) -> None:
        self._trace.instant(DECISIONS, "decision", name, ts, args)

    def _lose_track(self, why: str) -> None:
        self.finish(why)
        self._fold = None


_Draw = Callable[[_Converter, ev.Event, int], None]
_WITH_STATE: dict[type[ev.Event], _Draw] = {
    ev.RequestArrived: lambda converter, event, ts: converter._lives.arrived(event, ts),
    ev.RequestAdmitted: _Converter._admitted,
    ev.RequestResumed: _Converter._resumed,
    ev.RequestDeferred: _Converter._deferred,
    ev.RequestPreempted: _Converter._preempted,
    ev.RequestForked: _Converter._forked,
    ev.RequestFinished: _Converter._ended,
    ev.BeamPruned: _Converter._ended,
    ev.RequestAborted: _Converter._ended,
    ev.TokenSampled: lambda converter, event, ts: converter._lives.ledger.sampled(event),
    ev.StepScheduled: _Converter._scheduled,
    ev.DraftProposed: _Converter._drafted,
    ev.DraftVerified: _Converter._verified,
    ev.BlockHit: _Converter._hit,
    ev.BlockReleased: _Converter._released,
    ev.BlockFreed: _Converter._freed,
    ev.BlockEvicted: _Converter._uncached,
}
_WITHOUT_STATE: dict[type[ev.Event], _Draw] = {
    ev.BlockEvicted: _Converter._evicted,
    ev.BlockCopied: _Converter._copied,
    ev.InvariantViolated: _Converter._violated,
    ev.Gap: _Converter._gap,
}
