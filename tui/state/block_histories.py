"""The history of blocks: prefix lookups, owners and ages.

Each part is plain data with one `apply`, as in `histories`.
"""

from collections.abc import Callable
from typing import ClassVar

import msgspec

from minivllm.events import types as ev

LOOKUPS_KEPT = 32


class Lookup(msgspec.Struct):
    """One sequence's lookup in the prefix cache, at its admission."""

    seq_id: str
    step: int
    hits: list[tuple[int, int, bool]] = []
    """(entry of the block table, block, whether the block was free), in order"""
    missed: int | None = None
    """The first entry of the block table that was not found."""
    why: str = ""


class Lookups(msgspec.Struct):
    recent: list[Lookup] = []

    def apply(self, event: ev.Event) -> None:
        self.APPLY[type(event)](self, event)

    def _hit(self, event: ev.BlockHit) -> None:
        self._of(event).hits.append((event.logical, event.block_id, event.was_free))

    def _missed(self, event: ev.BlockMissed) -> None:
        lookup = self._of(event)
        lookup.missed, lookup.why = event.logical, event.why

    def of(self, seq_id: str | None) -> Lookup | None:
        return next((lookup for lookup in reversed(self.recent) if lookup.seq_id == seq_id), None)

    def _of(self, event: ev.BlockHit | ev.BlockMissed) -> Lookup:
        last = self.recent[-1] if self.recent else None
        if last is None or (last.seq_id, last.step) != (event.seq_id, event.step):
            last = Lookup(event.seq_id, event.step)
            self.recent.append(last)
            if len(self.recent) > LOOKUPS_KEPT:
                del self.recent[0]
        return last

    APPLY: ClassVar[dict[type[ev.Event], Callable]] = {ev.BlockHit: _hit, ev.BlockMissed: _missed}


class BlockAge(msgspec.Struct, gc=False):
    touched: int
    """The last step that wrote, took, found, copied, released, freed or evicted the block."""
    last_owner: str | None = None
    born: int | None = None
    """The step that last took the block from the free queue; None if the recording began later."""
    taken_by: str | None = None


class BlockAges(msgspec.Struct):
    blocks: list[BlockAge | None]
    """By block id; None for a block that was never used."""
    changed: set[int] = set()
    """Blocks that the current step has touched."""
    last_scheduled: str | None = None

    def last_owner(self, block_id: int) -> str | None:
        """The sequence that holds the block, or held it last."""
        age = self.blocks[block_id]
        return None if age is None else age.last_owner

    def owner_told_by(self, event: ev.Event) -> str | None:
        """The sequence of an event, or the last owner of its block. Call after `apply`."""
        kind = type(event)
        if kind is ev.BlockHashed:
            return self.last_scheduled
        if kind is ev.BlockEvicted:
            return self.last_owner(event.block_id)
        return getattr(event, "seq_id", None)

    def apply(self, event: ev.Event) -> None:
        self.APPLY[type(event)](self, event)

    def write(self, block_ids: list[int], step: int) -> None:
        for block_id in block_ids:
            self._touch(block_id, step)

    def _begin(self, event: ev.StepBegin) -> None:
        self.changed.clear()

    def _scheduled(self, event: ev.StepScheduled) -> None:
        self.last_scheduled = event.seq_id

    def _allocated(self, event: ev.BlockAllocated) -> None:
        self._touch(event.block_id, event.step, event.seq_id, is_new=True)

    def _copied(self, event: ev.BlockCopied) -> None:
        self._touch(event.src, event.step)
        self._touch(event.dst, event.step, event.seq_id, is_new=True)

    def _hashed(self, event: ev.BlockHashed) -> None:
        # If several sequences hold the block, the sequence scheduled last counts as its owner.
        self._touch(event.block_id, event.step, self.last_scheduled)

    def _held(self, event: ev.BlockHit | ev.BlockReleased) -> None:
        self._touch(event.block_id, event.step, event.seq_id)

    def _seen(self, event: ev.BlockFreed | ev.BlockEvicted) -> None:
        self._touch(event.block_id, event.step)

    def _touch(
        self, block_id: int, step: int, owner: str | None = None, *, is_new: bool = False
    ) -> None:
        self.changed.add(block_id)
        age = self.blocks[block_id]
        if age is None:
            age = self.blocks[block_id] = BlockAge(step)
        age.touched = step
        if owner is not None:
            age.last_owner = owner
        if is_new:
            age.born, age.taken_by = step, owner

    APPLY: ClassVar[dict[type[ev.Event], Callable]] = {
        ev.StepBegin: _begin,
        ev.StepScheduled: _scheduled,
        ev.BlockAllocated: _allocated,
        ev.BlockCopied: _copied,
        ev.BlockHashed: _hashed,
        ev.BlockHit: _held,
        ev.BlockReleased: _held,
        ev.BlockFreed: _seen,
        ev.BlockEvicted: _seen,
    }
