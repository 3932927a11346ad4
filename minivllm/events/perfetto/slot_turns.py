"""Turns of sequences in their batch slots, as slices on a track a slot, and the arrows between
them.

A turn is what one sequence got of one step. An arrow leads from the turn of who had blocks to the
turn of who found them in the prefix cache, and from the last turn before a preemption to the first
after it.

The easy thing to get wrong is the end of an arrow that points at nothing. Who gave a block to the
cache may have ended a thousand steps ago, so with each block stands the last turn of who let it go;
and who hits a block gets its turn only later in the step, so arrows wait for the end of the step,
and for one of their own.
"""

from dataclasses import dataclass, field

from minivllm.events.perfetto.chrome_trace import ChromeTrace

FIRST_TRACK = 10
"""The track of slot 0."""


@dataclass(slots=True)
class _Turn:
    """`end` is known when the step ends."""

    seq_id: str
    track: int
    start: int
    args: dict[str, object]
    end: int | None = None

    def moment(self, ts: int) -> tuple[int, int]:
        """A point in this slice, at `ts` if its step is still under way."""
        return self.track, ts if self.end is None else self.end - 1


@dataclass(slots=True)
class _Arrow:
    """To the turn that `seq_id` gets in this step."""

    cat: str
    source: tuple[int, int]
    seq_id: str
    ts: int
    args: dict[str, object]
    blocks: list[int] = field(default_factory=list)


class SlotTurns:
    """Draws into `trace`; `ts` is when, in microseconds."""

    def __init__(self, trace: ChromeTrace, num_slots: int) -> None:
        self._trace = trace
        self._turns: dict[str, _Turn] = {}
        """Of the step under way, by sequence."""
        self._arrows: dict[tuple[str, str, str], _Arrow] = {}
        self._last: dict[str, _Turn] = {}
        """The last turn of each sequence that has not ended; of a fork without one, its
        parent's.
        """
        self._released_by: dict[int, tuple[str, _Turn]] = {}
        """Block -> who let go of it last."""
        for slot in range(num_slots):
            trace.thread(FIRST_TRACK + slot, f"slot {slot}")

    @property
    def num_turns(self) -> int:
        """Turns in the step under way."""
        return len(self._turns)

    def scheduled(self, seq_id: str, slot: int, start: int, args: dict[str, object]) -> None:
        """A sequence has a turn in the step that began at `start`."""
        self._turns[seq_id] = self._last[seq_id] = _Turn(seq_id, FIRST_TRACK + slot, start, args)

    def forked(self, seq_id: str, parent: str) -> None:
        if parent in self._last:
            self._last[seq_id] = self._last[parent]

    def released(self, seq_id: str, block_id: int) -> None:
        if seq_id in self._last:
            self._released_by[block_id] = (seq_id, self._last[seq_id])

    def hit(self, seq_id: str, block_id: int, owner: str | None, ts: int) -> None:
        """A sequence found a block, which `owner` holds, or nobody. One arrow for all that it finds
        from one donor.
        """
        if owner in self._last:
            donor, turn = owner, self._last[owner]
        elif block_id in self._released_by:
            donor, turn = self._released_by[block_id]
        else:
            return
        if donor != seq_id:  # else its own, from before it was preempted
            key = ("share", donor, seq_id)
            if key not in self._arrows:
                self._arrows[key] = _Arrow(
                    "share", turn.moment(ts), seq_id, ts, {"from": donor, "to": seq_id}
                )
            self._arrows[key].blocks.append(block_id)

    def resumed(self, seq_id: str, ts: int) -> None:
        if seq_id in self._last:
            source = self._last[seq_id].moment(ts)
            self._arrows["resume", seq_id, seq_id] = _Arrow(
                "resume", source, seq_id, ts, {"sequence": seq_id}
            )

    def ended(self, seq_id: str) -> None:
        self._last.pop(seq_id, None)

    def draw(self, end: int) -> None:
        """The step ends: draw its turns, and the arrows that found theirs."""
        for seq_id, turn in self._turns.items():
            turn.end = end
            self._trace.slice(
                turn.track, "slot", seq_id.removesuffix(".0"), turn.start, end, turn.args
            )
        for arrow in self._arrows.values():
            target = self._turns.get(arrow.seq_id)
            if target is not None:  # a step that was cut off may have none for it
                args = {**arrow.args, "blocks": arrow.blocks} if arrow.blocks else arrow.args
                self._trace.arrow(arrow.cat, arrow.source, (target.track, arrow.ts), args)
        self._turns.clear()
        self._arrows.clear()
