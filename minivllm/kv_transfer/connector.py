"""`KVConnector`: what the core calls when keys and values can come from a second memory.

    begin_step                   loads that have ended; then this step's stores
    get_num_new_matched_tokens   how many tokens after the prefix cache's the other memory has
    update_state_after_alloc     a waiting sequence has its blocks: begin to load
    start_load_kv                issue the copies of the planned step, before the model runs
    request_finished             the sequence's blocks are about to be freed
    invalidate                   a request has failed: nothing may hit what it wrote

A sequence that loads owns a slot and blocks for *all* of its tokens. So it can run as soon as its
load has ended, whatever the head of the queue waits for, and every wait for a load ends:

    7 blocks; A needs 4, and 1 more for its next token; B needs 3 and 1 more
    with blocks for the loaded tokens   A 4, B 3: both are loaded, and none can ever run
    with blocks for all tokens          A 5; B does not fit, so it waits without blocks

It is not in `running`, so it is never preempted, and no copy writes into somebody else's block.
The deadlock is in vLLM's pull request 57104.
Source: vLLM `vllm/distributed/kv_transfer/kv_connector/v1/base.py` (`KVConnectorBase_V1`).
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile

from minivllm.clock import Clock
from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.events.state import LoadState


class Mark:
    """A point after some copies, as `torch.cuda.Event`. By default, they have been made."""

    def query(self) -> bool:
        return True

    def synchronize(self) -> None:
        """Wait until they have."""


@dataclass(slots=True, eq=False)
class Load:
    """Blocks on their way to a waiting sequence."""

    sequence: Sequence
    blocks: list[KVCacheBlock]
    """The part of the sequence's block table that is filled."""
    sources: list[KVCacheBlock]
    """What is read in the host's memory, in the same order."""
    mark: Mark | None = None
    """After the copies; None before they are issued."""
    ends_at: float = 0.0
    """When the copies would end on a GPU, on the virtual clock."""

    @property
    def ids(self) -> tuple[list[int], list[int]]:
        return [block.block_id for block in self.blocks], [block.block_id for block in self.sources]


class Link:
    """The time that loads take on a GPU, for the virtual clock: they come one after another."""

    def __init__(self, clock: Clock, seconds_per_block: float) -> None:
        """seconds_per_block: 0 on a real clock, where a copy takes as long as it takes"""
        self.now, self._seconds_per_block = clock.now, seconds_per_block
        self._is_free_at = 0.0

    def send(self, num_blocks: int) -> float:
        """Return when `num_blocks` more blocks will have arrived."""
        self._is_free_at = max(self._is_free_at, self.now()) + num_blocks * self._seconds_per_block
        return self._is_free_at


class KVConnector:
    """By default, it finds nothing and keeps nothing."""

    source = "host"  # of loads, see `kv.load`
    num_cpu_blocks = 0

    def __init__(self, scheduler: Scheduler, bus: EventBus, link: Link) -> None:
        self.loads: dict[Sequence, Load] = {}
        self.loaded: dict[Sequence, int] = {}
        """Sequences to admit whose load has ended -> how many of their tokens the blocks hold."""
        self._manager, self._counters = scheduler.kv_cache_manager, scheduler.counters
        self._bus, self._link = bus, link
        self._has_begun = False

    # ---- scheduler ----

    def begin_step(self) -> None:
        """End the loads whose blocks have arrived. Called before anything is planned."""
        for load in list(self.loads.values()):
            if load.mark is not None and load.ends_at <= self._link.now() and load.mark.query():
                self._end_load(load, self._receive(load))

    def _receive(self, load: Load) -> int:
        """Return how many blocks of a load that has ended have arrived."""
        return len(load.blocks)

    def get_num_new_matched_tokens(self, sequence: Sequence, num_computed_tokens: int) -> int:
        """Return how many tokens after the prefix cache's can be loaded, in whole blocks."""
        return 0

    def update_state_after_alloc(self, sequence: Sequence, num_external_tokens: int) -> None:
        """Begin to load into the blocks after the sequence's hits."""
        first = _num_hashed(sequence)
        end = first + num_external_tokens // self._manager.block_size
        load = Load(sequence, sequence.block_table[first:end], self._pin(sequence, first, end))
        self.loads[sequence] = load
        self._has_begun = True
        if self._bus.active:
            self._bus.emit(ev.KVLoad, sequence.seq_id, sequence.slot, *load.ids, self.source)

    def has_begun(self) -> bool:
        """Whether a load has begun since the last call. Then those behind it may be admitted."""
        begun, self._has_begun = self._has_begun, False
        return begun

    def _pin(self, sequence: Sequence, first: int, end: int) -> list[KVCacheBlock]:
        """Return the sources of blocks [first, end) of the sequence. They are kept for the load."""
        return []

    def _unpin(self, sources: list[KVCacheBlock]) -> None:
        """Give back what `_pin` has returned."""

    def _end_load(self, load: Load, num_blocks: int) -> None:
        """End a load of which the first `num_blocks` blocks have arrived."""
        sequence, size = load.sequence, self._manager.block_size
        del self.loads[sequence]
        self._unpin(load.sources)
        self._counters.external_prefix_cache_hits += num_blocks * size
        if self._bus.active:
            self._bus.emit(ev.KVLoaded, sequence.seq_id, num_blocks * size)
        hashes, first = sequence.block_hashes, _num_hashed(sequence)
        self.loaded[sequence] = (first + num_blocks) * size
        for i, block in enumerate(load.blocks[:num_blocks], first):
            parent = hashes[i - 1] if i else None
            self._manager.pool.cache_block(block, hashes[i], parent, sequence.seq_id)

    def request_finished(self, sequence: Sequence) -> None:
        """Forget a sequence that ends, whose blocks are about to be freed."""
        if (load := self.loads.get(sequence)) is not None:
            if load.mark is not None:
                load.mark.synchronize()  # no copy may write into a block with another owner
            self._end_load(load, 0)
        self.loaded.pop(sequence, None)

    def invalidate(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Forget what was stored of `blocks`: their request has failed, and they may be NaN."""

    # ---- model ----

    def start_load_kv(self, plan: SchedulerOutput) -> None:
        """Issue the copies: stores, then loads. Called for every plan, before it runs."""

    # ---- views ----

    def state(self) -> dict[str, object]:
        """Return the fields of `EngineState` that belong to the connector."""
        loads = self.loads.values()
        return {"loads": {it.sequence.seq_id: LoadState(*it.ids, self.source) for it in loads}}

    def violations(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the details of each broken rule, see `minivllm.core.invariants`."""
        for load in self.loads.values():
            if any(block.ref_cnt != 1 or block.block_hash is not None for block in load.blocks):
                yield "a block that is being loaded has one owner and no hash", f"{load.blocks}"


def _num_hashed(sequence: Sequence) -> int:
    """Count the blocks at the start of the table that are hits."""
    return sum(1 for _ in takewhile(lambda block: block.block_hash, sequence.block_table))
