"""`KVUsageMeter`: how the KV cache memory was used in each step, derived from events alone.

Each slot (room for one token's keys and values) is in one category. Used, reserved and internal
slots are *allocated*: their block has an owner.

    used      the slot holds a computed token; a shared slot counts once
    reserved  the sequence may write the slot later, up to prompt + max_tokens
    internal  the sequence will never write the slot
    external  the slot is in a free block that no reservation can use, because too few neighbouring
              blocks are free too. Only with contiguous memory
    free      all other slots

Waste, as in the PagedAttention paper, is the share of the allocated slots that is not used. If a
sequence ends before `max_tokens`, the slots that it never writes were counted as reserved.

A step is measured when its plan is complete, after its last `step.scheduled`. A measurement between
two steps would look too good: ended sequences are gone, and forks have not copied blocks yet.

Source: sections 3.1 and 6.3 of the PagedAttention paper (Kwon et al., 2023).
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.state import SequenceState


@dataclass(frozen=True, slots=True)
class KVUsage:
    """Memory use in one step, in slots unless noted."""

    step: int
    t: float
    """End of the step, in seconds on the engine's clock."""
    total: int
    used: int
    reserved: int
    internal: int
    external: int
    num_running: int
    """Number of running requests."""
    num_table_entries: int
    """How many blocks the running sequences would need without sharing."""
    num_blocks_in_use: int

    @property
    def allocated(self) -> int:
        """Number of slots in blocks that have an owner."""
        return self.used + self.reserved + self.internal

    @property
    def waste(self) -> float:
        """Share of the allocated slots that is not used, from 0 to 1."""
        return (self.reserved + self.internal) / self.allocated if self.allocated else 0.0

    @property
    def saved_by_sharing(self) -> float:
        """The part of `num_table_entries` that sharing saves, from 0 to 1."""
        return (
            1 - self.num_blocks_in_use / self.num_table_entries if self.num_table_entries else 0.0
        )


class _BlockSlots(NamedTuple):
    """One entry of a block table, in slots."""

    block_id: int
    used: int
    """How many slots hold a computed token."""
    wanted: int
    """`used`, plus the slots that may still get a token before the sequence ends."""


class _Tally(NamedTuple):
    """Totals over all blocks in use; unit: slots."""

    used: int
    reserved: int
    internal: int


class KVUsageMeter:
    """Measures a run. Apply every event, or every event that `fold` has not applied yet."""

    def __init__(self, header: ev.LogHeader, fold: Fold | None = None) -> None:
        self.fold = fold or Fold(header)
        """The state after the last finished step."""
        self.samples: list[KVUsage] = []
        """One `KVUsage` for each step that scheduled a token."""
        self._step_events: list[ev.Event] = []

    def apply(self, event: ev.Event) -> None:
        self._step_events.append(event)
        if type(event) is ev.StepEnd:
            self._end_step(event)
            self._step_events.clear()

    def _end_step(self, end: ev.StepEnd) -> None:
        # Which event completed the plan is known only now.
        planned = [
            i for i, event in enumerate(self._step_events) if type(event) is ev.StepScheduled
        ]
        num_before = planned[-1] + 1 if planned else 0
        for event in self._step_events[:num_before]:
            self.fold.apply(event)
        if planned:
            self.samples.append(self._measure(end.step, end.t))
        for event in self._step_events[num_before:]:
            self.fold.apply(event)

    def now(self) -> KVUsage:
        """Measure the fold as it is, for a picture of this moment. The samples are for averages."""
        return self._measure(self.fold.step, self.fold.t)

    def _measure(self, step: int, t: float) -> KVUsage:
        fold, block_size = self.fold, self.fold.header.block_size
        running = [fold.sequences[seq_id] for seq_id in fold.running]
        tally = self._tally([entry for sequence in running for entry in self._slots_of(sequence)])
        return KVUsage(
            step=step,
            t=t,
            total=fold.header.num_usable_blocks * block_size,
            used=tally.used,
            reserved=tally.reserved,
            internal=tally.internal,
            external=self._num_useless_blocks() * block_size,
            num_running=len({sequence.request_id for sequence in running}),
            num_table_entries=sum(len(sequence.block_table) for sequence in running),
            num_blocks_in_use=len(
                {block_id for sequence in running for block_id in sequence.block_table}
            ),
        )

    def _slots_of(self, sequence: SequenceState) -> Iterator[_BlockSlots]:
        """Yield the slots of each block. A sequence's last token is sampled but never computed."""
        header = self.fold.header
        num_held = max(sequence.num_computed_tokens, sequence.num_cached_tokens)
        num_tokens = sequence.num_prompt_tokens + self.fold.requests[sequence.request_id].max_tokens
        num_final = min(num_tokens, header.max_model_len) - 1
        for index, block_id in enumerate(sequence.block_table):
            before = index * header.block_size
            used = max(min(num_held - before, header.block_size), 0)
            yield _BlockSlots(block_id, used, max(min(num_final - before, header.block_size), used))

    def _tally(self, entries: list[_BlockSlots]) -> _Tally:
        """Add up the slots of all blocks in use. For a shared block, take its owners' maximum."""
        used: dict[int, int] = {}
        wanted: dict[int, int] = {}
        for entry in entries:
            used[entry.block_id] = max(used.get(entry.block_id, 0), entry.used)
            wanted[entry.block_id] = max(wanted.get(entry.block_id, 0), entry.wanted)
        num_used, num_wanted = sum(used.values()), sum(wanted.values())
        return _Tally(
            num_used, num_wanted - num_used, len(used) * self.fold.header.block_size - num_wanted
        )

    def _num_useless_blocks(self) -> int:
        """How many free blocks would be left over after as many contiguous reservations as fit."""
        header = self.fold.header
        if header.config.get("kv_cache_allocator") != "contiguous":
            return 0
        num_reserved = -(-header.max_model_len // header.block_size)
        runs = groupby(self.fold.blocks, key=lambda block: block.ref_cnt == 0)
        return sum(sum(1 for _ in blocks) % num_reserved for is_free, blocks in runs if is_free)


def mean(values: list[float]) -> float:
    return sum(values) / len(values) if values else 0.0


class PoolUse(NamedTuple):
    """How many blocks of the pool are in each state at one moment."""

    used: int
    cached: int
    """Free blocks that a prompt with the same tokens can still hit."""
    empty: int


def pool_use(fold: Fold) -> PoolUse:
    """Count the pool's blocks by state. O(free blocks)."""
    blocks, num_free = fold.blocks, len(fold.free_queue)
    num_used = fold.header.num_usable_blocks - num_free
    cached = sum(blocks[block_id].hash is not None for block_id in fold.free_queue)
    return PoolUse(num_used, cached, num_free - cached)
