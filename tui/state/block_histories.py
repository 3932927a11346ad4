"""The history of blocks: prefix lookups, owners and ages.

Each part is plain data with a table `APPLY`, as in `histories`.
"""

from array import array
from collections.abc import Callable, MutableSequence
from typing import ClassVar, Literal

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
    content: bytes = b""
    """The token ids of a cached block, as an array of 32-bit integers. So a free block still has
    its words: the fold forgets the tokens of a sequence that has ended."""


Beat = Literal["hit", "copied_from", "copied_to", "evicted", "stored", "rescued", "loading"]
"""What happened to a block, beside tokens being written into it. `rescued`: it was evicted, and the
host's memory still has its content.
"""
STEPS_OF_BEATS = 3


class BlockAges(msgspec.Struct):
    blocks: list[BlockAge | None]
    """By block id; None for a block that was never used."""
    changed: set[int] = set()
    """Blocks that the current step wrote, took, found, copied, released, freed or evicted."""
    beats: list[dict[int, Beat]] = []
    """Block -> what happened to it last, in each of the last steps, the current step first."""
    last_scheduled: str | None = None
    host_owners: dict[str, str | None] = {}
    """Hash of each block in the host's memory -> the sequence that had the block last."""
    stores: dict[int, int] = {}
    """The host's block -> the block that the current step copies into it."""

    def last_owner(self, block_id: int) -> str | None:
        """The sequence that holds the block, or held it last."""
        age = self.blocks[block_id]
        return None if age is None else age.last_owner

    def owner_told_by(self, event: ev.Event) -> str | None:
        """The sequence of an event, or the last owner of its block. Call after the event was applied."""
        kind = type(event)
        if kind is ev.BlockHashed:
            return event.seq_id or self.last_scheduled
        if kind in (ev.BlockEvicted, ev.KVStore):
            return self.last_owner(event.block_id)
        return getattr(event, "seq_id", None)

    def tokens(self, block_id: int) -> MutableSequence[int]:
        """The token ids of a cached block; empty if it was cached before the recording began."""
        age = self.blocks[block_id]
        return array("I", b"" if age is None else age.content)

    def has_tokens(self, block_id: int) -> bool:
        age = self.blocks[block_id]
        return age is not None and age.content != b""

    def keep_tokens(self, block_id: int, token_ids: MutableSequence[int]) -> None:
        self.blocks[block_id].content = array("I", token_ids).tobytes()

    def write(self, block_ids: list[int], step: int) -> None:
        for block_id in block_ids:
            self._touch(block_id, step)

    def _begin(self, event: ev.StepBegin) -> None:
        self.changed.clear()
        self.stores.clear()
        self.beats.insert(0, {})
        del self.beats[STEPS_OF_BEATS:]

    def _scheduled(self, event: ev.StepScheduled) -> None:
        self.last_scheduled = event.seq_id

    def _allocated(self, event: ev.BlockAllocated) -> None:
        self._touch(event.block_id, event.step, event.seq_id, is_new=True)

    def _copied(self, event: ev.BlockCopied) -> None:
        self._touch(event.src, event.step)
        self._touch(event.dst, event.step, event.seq_id, is_new=True)
        self._beat(event.src, "copied_from")
        self._beat(event.dst, "copied_to")

    def _hashed(self, event: ev.BlockHashed) -> None:
        # If several sequences hold the block, the sequence scheduled last counts as its owner.
        self._touch(event.block_id, event.step, event.seq_id or self.last_scheduled)

    def _hit(self, event: ev.BlockHit) -> None:
        self._touch(event.block_id, event.step, event.seq_id)
        self._beat(event.block_id, "hit")

    def _released(self, event: ev.BlockReleased) -> None:
        self._touch(event.block_id, event.step, event.seq_id)

    def _freed(self, event: ev.BlockFreed) -> None:
        self._touch(event.block_id, event.step)

    def _evicted(self, event: ev.BlockEvicted) -> None:
        self._touch(event.block_id, event.step)
        self.blocks[event.block_id].content = b""
        self._beat(event.block_id, "rescued" if event.hash in self.host_owners else "evicted")

    def _stored(self, event: ev.KVStore) -> None:
        self.host_owners[event.hash] = self.last_owner(event.block_id)
        self.stores[event.host_block] = event.block_id
        self._beat(event.block_id, "stored")

    def _lost(self, event: ev.KVLost) -> None:
        self.host_owners.pop(event.hash, None)

    def _beat(self, block_id: int, beat: Beat) -> None:
        if not self.beats:  # a recording can begin in the middle of a step
            self.beats.append({})
        self.beats[0][block_id] = beat

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
        ev.BlockHit: _hit,
        ev.BlockReleased: _released,
        ev.BlockFreed: _freed,
        ev.BlockEvicted: _evicted,
        ev.KVStore: _stored,
        ev.KVLost: _lost,
    }
