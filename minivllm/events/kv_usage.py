"""`KVUsageMeter`: what the KV cache memory was used for, step by step, worked out from events
alone.

Every slot (room for one token's keys and values) is one of these, and the first three together are
allocated, that is, in a block that somebody owns:

    used      holds a computed token; shared by several sequences it counts once
    reserved  its sequence will write it later, up to prompt + max_tokens
    internal  its sequence will never write it
    external  in a free block that no reservation fits into: its run of free neighbours is too
              short, or what is left of it when reservations have filled it. Only where memory is
              contiguous
    free      all others

Waste, as the PagedAttention paper has it, is reserved and internal over allocated. (A sequence may
end before its `max_tokens`; what it then leaves unwritten was counted as reserved.) Knows no engine
and no clock: a recording gives the same numbers as the run itself.

The easy thing to get wrong is the moment. Between two steps the sequences that have just ended are
gone and forks have not copied yet, so memory looks better than it ever was while the model ran. So
each step is measured when its plan is complete: after its last `step.scheduled`.

`pool_use` counts blocks at one moment. A freed block may still hold what the next prompt begins
with, so these are counted apart from the empty ones.

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
    """One step. Slots, unless it says otherwise."""

    step: int
    t: float
    """Seconds on the engine's clock when the step ended."""
    total: int
    used: int
    reserved: int
    internal: int
    external: int
    num_running: int
    """Requests that run."""
    num_table_entries: int
    """Blocks that the running sequences would need if none were shared."""
    num_blocks_in_use: int

    @property
    def allocated(self) -> int:
        """In a block that somebody owns."""
        return self.used + self.reserved + self.internal

    @property
    def waste(self) -> float:
        """Allocated but not used, over allocated; 0 to 1."""
        return (self.reserved + self.internal) / self.allocated if self.allocated else 0.0

    @property
    def saved_by_sharing(self) -> float:
        """Blocks saved by sharing, over the blocks needed without it; 0 to 1."""
        return (
            1 - self.num_blocks_in_use / self.num_table_entries if self.num_table_entries else 0.0
        )


class _BlockSlots(NamedTuple):
    """One entry of one sequence's block table, in slots."""

    block_id: int
    used: int
    """Hold a computed token."""
    wanted: int
    """These, and those that will hold one before the sequence ends."""


class _Tally(NamedTuple):
    """All blocks in use, in slots."""

    used: int
    reserved: int
    internal: int


class KVUsageMeter:
    """Give `apply` every event of a run, from the first, or from the first of a step whose
    beginning is `fold`.
    """

    def __init__(self, header: ev.LogHeader, fold: Fold | None = None) -> None:
        self.fold = fold or Fold(header)
        """The state after the last finished step."""
        self.samples: list[KVUsage] = []
        """One for each step in which something ran."""
        self._step_events: list[ev.Event] = []

    def apply(self, event: ev.Event) -> None:
        """Take in the next event."""
        self._step_events.append(event)
        if type(event) is ev.StepEnd:
            self._end_step(event)
            self._step_events.clear()

    def _end_step(self, end: ev.StepEnd) -> None:
        # Which event completed the plan is known only now that the step is over: hence the waiting
        # list.
        planned = [
            i for i, event in enumerate(self._step_events) if type(event) is ev.StepScheduled
        ]
        num_before = planned[-1] + 1 if planned else 0
        for event in self._step_events[:num_before]:
            self.fold.apply(event)
        if planned:
            self.samples.append(self._measure(end))
        for event in self._step_events[num_before:]:
            self.fold.apply(event)

    def _measure(self, end: ev.StepEnd) -> KVUsage:
        fold, block_size = self.fold, self.fold.header.block_size
        running = [fold.sequences[seq_id] for seq_id in fold.running]
        tally = self._tally([one for sequence in running for one in self._slots_of(sequence)])
        return KVUsage(
            step=end.step,
            t=end.t,
            total=len(fold.blocks) * block_size,
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
        """What `sequence` does with each block of its table. The last token is sampled and never
        computed.
        """
        header = self.fold.header
        num_held = max(sequence.num_computed_tokens, sequence.num_cached_tokens)
        num_tokens = sequence.num_prompt_tokens + self.fold.requests[sequence.request_id].max_tokens
        num_final = min(num_tokens, header.max_model_len) - 1
        for index, block_id in enumerate(sequence.block_table):
            before = index * header.block_size
            used = max(min(num_held - before, header.block_size), 0)
            yield _BlockSlots(block_id, used, max(min(num_final - before, header.block_size), used))

    def _tally(self, entries: list[_BlockSlots]) -> _Tally:
        """The slots of all blocks in use. Of several sequences that have a block the one that does
        most with it counts.
        """
        used: dict[int, int] = {}
        wanted: dict[int, int] = {}
        for one in entries:
            used[one.block_id] = max(used.get(one.block_id, 0), one.used)
            wanted[one.block_id] = max(wanted.get(one.block_id, 0), one.wanted)
        num_used, num_wanted = sum(used.values()), sum(wanted.values())
        return _Tally(
            num_used, num_wanted - num_used, len(used) * self.fold.header.block_size - num_wanted
        )

    def _num_useless_blocks(self) -> int:
        """Free blocks that would be left over if as many reservations as possible were made now."""
        header = self.fold.header
        if header.config.get("kv_cache_allocator") != "contiguous":
            return 0
        num_reserved = -(-header.max_model_len // header.block_size)
        runs = groupby(self.fold.blocks, key=lambda block: block.ref_cnt == 0)
        return sum(sum(1 for _ in blocks) % num_reserved for is_free, blocks in runs if is_free)


def mean(values: list[float]) -> float:
    """The mean over steps; 0 for a run in which nothing ran."""
    return sum(values) / len(values) if values else 0.0


class PoolUse(NamedTuple):
    """How many blocks of the pool are in which condition at one moment."""

    used: int
    cached: int
    """Free, but still a hit for a prompt that begins with the same tokens."""
    empty: int


def pool_use(fold: Fold) -> PoolUse:
    """O(free blocks)."""
    blocks, num_free = fold.blocks, len(fold.free_queue)
    cached = sum(blocks[block_id].hash is not None for block_id in fold.free_queue)
    return PoolUse(len(blocks) - num_free, cached, num_free - cached)
