"""What a view remembers of blocks: prefix lookups, and whose each block was and since when.

Plain data with one `apply` a part, as in `histories`. The easy thing to get wrong is the owner of a block that was
filled: it may have several, and it is the one whose tokens were scheduled last.
"""

from typing import ClassVar

import msgspec

from minivllm.events import types as ev

LOOKUPS_KEPT = 32


class Lookup(msgspec.Struct):
    """What the prefix cache had for one sequence when it entered the batch."""

    seq_id: str
    step: int
    hits: list[tuple[int, int, bool]] = []
    """(entry of the block table, block, whether it was free), in order"""
    missed: int | None = None
    """The first entry that was not found."""
    why: str = ""


class Lookups(msgspec.Struct):
    """The last lookups, oldest first."""

    KINDS: ClassVar = (ev.BlockHit, ev.BlockMissed)

    recent: list[Lookup] = []

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        match event:
            case ev.BlockHit():
                self._of(event).hits.append((event.logical, event.block_id, event.was_free))
            case ev.BlockMissed():
                lookup = self._of(event)
                lookup.missed, lookup.why = event.logical, event.why

    def of(self, seq_id: str | None) -> Lookup | None:
        """The last one of a sequence."""
        return next((lookup for lookup in reversed(self.recent) if lookup.seq_id == seq_id), None)

    def _of(self, event: ev.BlockHit | ev.BlockMissed) -> Lookup:
        last = self.recent[-1] if self.recent else None
        if last is None or (last.seq_id, last.step) != (event.seq_id, event.step):
            last = Lookup(event.seq_id, event.step)
            self.recent.append(last)
            if len(self.recent) > LOOKUPS_KEPT:
                del self.recent[0]
        return last


class BlockAge(msgspec.Struct):
    """What is remembered of one block since it was used first."""

    touched: int
    """Step of the last event about it."""
    last_owner: str | None = None
    born: int | None = None
    """Step in which it was last taken from the free queue; None if that was before the recording began."""


class BlockAges(msgspec.Struct):
    """Of every block: whose it was last, and when it was handed out and touched last."""

    KINDS: ClassVar = (
        ev.StepBegin, ev.StepScheduled, ev.BlockAllocated, ev.BlockHit, ev.BlockReleased, ev.BlockFreed, ev.BlockHashed,
        ev.BlockCopied, ev.BlockEvicted,
    )  # fmt: skip

    blocks: list[BlockAge | None]
    """By block id; None for one that was not used so far."""
    changed: set[int] = set()
    """Blocks that an event of the current step has touched."""
    last_scheduled: str | None = None

    def last_owner(self, block_id: int) -> str | None:
        """The sequence that holds or held the block."""
        age = self.blocks[block_id]
        return None if age is None else age.last_owner

    def apply(self, event: ev.Event) -> str | None:
        """Take in the next event; the sequence that it is about, or that held its block last."""
        owner = getattr(event, "seq_id", None)
        match event:
            case ev.StepBegin():
                self.changed.clear()
            case ev.StepScheduled():
                self.last_scheduled = event.seq_id
            case ev.BlockAllocated():
                self._touch(event.block_id, event.step, owner, is_new=True)
            case ev.BlockCopied():
                self._touch(event.src, event.step)
                self._touch(event.dst, event.step, owner, is_new=True)
            case ev.BlockEvicted():
                self._touch(event.block_id, event.step)
                return self.last_owner(event.block_id)
            case ev.BlockHashed():
                # Of several that share or shared it, the one whose tokens have just filled it.
                owner = self.last_scheduled
                self._touch(event.block_id, event.step, owner)
            case ev.BlockHit() | ev.BlockReleased() | ev.BlockFreed():
                self._touch(event.block_id, event.step, owner)
        return owner

    def _touch(self, block_id: int, step: int, owner: str | None = None, *, is_new: bool = False) -> None:
        self.changed.add(block_id)
        age = self.blocks[block_id]
        if age is None:
            age = self.blocks[block_id] = BlockAge(step)
        age.touched = step
        if owner is not None:
            age.last_owner = owner
        if is_new:
            age.born = step
