"""Draw the turns of sequences in their batch slots, and the arrows between turns.

A turn is one sequence's part of one step; each slot is a track. When a block is found in the prefix
cache, an arrow goes from the donor's turn to the receiver's turn. After a preemption, an arrow goes
from the last turn before the preemption to the first turn after it.

    step       1         2         3
    slot 0   [ ada ]   [ ada ]---+               ada's turns; ada computed block 4
    slot 1                       +-->[ ben ]     ben found block 4 in step 3

The donor of a block may have ended a thousand steps ago, so the last turn of the sequence that
released a block is kept. The receiver gets its turn later in the step, so arrows are drawn when the
step ends.
"""

from dataclasses import dataclass, field

from minivllm.events.perfetto.chrome_trace import ChromeTrace

FIRST_TRACK = 10
"""Track number of slot 0."""


@dataclass(slots=True)
class _Turn:
    """A sequence's turn in one step; `end` is None until the step ends."""

    seq_id: str
    track: int
    start: int
    args: dict[str, object]
    end: int | None = None

    def moment(self, ts: int) -> tuple[int, int]:
        """Return a (track, time) within the turn's slice: `ts`, or just before the turn's end."""
        return self.track, ts if self.end is None else self.end - 1


@dataclass(slots=True)
class _Arrow:
    """An arrow to the turn that `seq_id` will get in this step."""

    cat: str
    source: tuple[int, int]
    seq_id: str
    ts: int
    args: dict[str, object]
    blocks: list[int] = field(default_factory=list)


class SlotTurns:
    """Draws into `trace`; `ts` is a time in microseconds."""

    def __init__(self, trace: ChromeTrace, num_slots: int) -> None:
        self._trace = trace
        self._turns: dict[str, _Turn] = {}
        """Turns of the current step, by sequence."""
        self._arrows: dict[tuple[str, str, str], _Arrow] = {}
        self._last: dict[str, _Turn] = {}
        """The last turn of each unfinished sequence. A new fork has the last turn of its parent."""
        self._released_by: dict[int, tuple[str, _Turn]] = {}
        """Block id -> the sequence that released the block last, and the sequence's last turn."""
        for slot in range(num_slots):
            trace.thread(FIRST_TRACK + slot, f"slot {slot}")

    @property
    def num_turns(self) -> int:
        return len(self._turns)

    def scheduled(self, seq_id: str, slot: int, start: int, args: dict[str, object]) -> None:
        """Give a sequence a turn in the step that began at `start`."""
        self._turns[seq_id] = self._last[seq_id] = _Turn(seq_id, FIRST_TRACK + slot, start, args)

    def add(self, seq_id: str, **args: object) -> None:
        """Add facts to a sequence's turn in this step."""
        if seq_id in self._turns:  # not if the step began before the recording
            self._turns[seq_id].args |= args

    def forked(self, seq_id: str, parent: str) -> None:
        if parent in self._last:
            self._last[seq_id] = self._last[parent]

    def released(self, seq_id: str, block_id: int) -> None:
        if seq_id in self._last:
            self._released_by[block_id] = (seq_id, self._last[seq_id])

    def hit(self, seq_id: str, block_id: int, owner: str | None, ts: int) -> None:
        """Record that a sequence hit a block; `owner` is a current owner of the block, or None.

        There is one arrow from each donor, for all of its blocks.
        """
        if owner in self._last:
            donor, turn = owner, self._last[owner]
        elif block_id in self._released_by:
            donor, turn = self._released_by[block_id]
        else:
            return
        if donor != seq_id:  # otherwise the sequence's own block, from before its preemption
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
        """End the step: draw its turns, and the arrows that have a target."""
        for seq_id, turn in self._turns.items():
            turn.end = end
            self._trace.slice(
                turn.track, "slot", seq_id.removesuffix(".0"), turn.start, end, turn.args
            )
        for arrow in self._arrows.values():
            target = self._turns.get(arrow.seq_id)
            if target is not None:  # in a step that was cut off, the turn may be missing
                args = {**arrow.args, "blocks": arrow.blocks} if arrow.blocks else arrow.args
                self._trace.arrow(arrow.cat, arrow.source, (target.track, arrow.ts), args)
        self._turns.clear()
        self._arrows.clear()
