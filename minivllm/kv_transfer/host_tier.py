"""`SimpleCPUOffloadConnector`: a second pool with the same hashes, in the host's memory.

    lazy    a cursor walks the free queue from its eviction end and copies the blocks that the next
            steps may reuse: they are rescued just before they would be lost
    eager   each full block is copied after the step that filled it

    free queue   9  4  7  2  5  0 ...     reused from the left
                 '--------'               two steps' worth is copied, unless the host has the hash

The host's pool is a `BlockPool`, too: its least recently used block is reused first, a load pins
what it reads, and no hash is in it twice.

All copies are made before the model writes anything, stores first. So a store counts as made as
soon as it is planned, and its block may be reused in the same step.

Source: vLLM `vllm/v1/simple_kv_offload/manager.py` (`SimpleCPUOffloadScheduler`).
"""

from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import islice, takewhile
from typing import Literal

from minivllm.clock import MonotonicClock
from minivllm.core.block_pool import BlockPool, KVCacheBlock, short_hash
from minivllm.core.request import Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import BlockCopy, ScheduledSequence, SchedulerOutput
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.events.state import BlockState
from minivllm.kv_transfer.connector import KVConnector, Link, Mark

Copies = list[BlockCopy]


class Copier(Mark):
    """Copies blocks between the pool and the host. This default has no bytes to copy."""

    def copy(self, stores: Copies, loads: Copies, overwritten: bool) -> Mark:
        """Copy `stores` to the host, then `loads` from the host. Returns a mark after all of them.

        overwritten: whether the next work on the device may write into a source of `stores`
        """
        return self


class SimpleCPUOffloadConnector(KVConnector):
    def __init__(
        self, scheduler: Scheduler, bus: EventBus, num_blocks: int, copier: Copier, link: Link,
        num_ahead: int | None,
    ) -> None:  # fmt: skip
        """num_ahead: how far the cursor goes, in blocks; None stores eagerly"""
        super().__init__(scheduler, bus, link)
        # Without listeners: its events would look like those of the first pool.
        self.pool = BlockPool(num_blocks, EventBus(MonotonicClock()))
        self.num_cpu_blocks = num_blocks
        self._copier, self._num_ahead = copier, num_ahead
        self._stores: dict[int, KVCacheBlock] = {}
        """Stores that are not issued yet, by the host's block: the last one wins."""
        self._scheduled: list[ScheduledSequence] = []  # what the last plan computed

    # ---- stores ----

    def begin_step(self) -> None:
        super().begin_step()
        if self._num_ahead is not None:
            self._rescue(self._num_ahead)
        else:
            for item in self._scheduled:
                self._store_table(item.sequence, item.start // self._manager.block_size)

    def _rescue(self, num_blocks: int) -> None:
        """Store what is in the first `num_blocks` blocks of the pool's free queue."""
        for block in islice(self._manager.pool.free_queue, num_blocks):
            self._store(block)

    def request_finished(self, sequence: Sequence) -> None:
        if self._num_ahead is None and not self.loads.get(sequence):
            self._store_table(sequence)
        super().request_finished(sequence)

    def _store_table(self, sequence: Sequence, first: int = 0) -> None:
        for block in sequence.block_table[first:]:
            self._store(block)

    def _store(self, block: KVCacheBlock) -> None:
        """Plan a copy of `block`, unless the host has its hash, or no place for it."""
        block_hash, pool = block.block_hash, self.pool
        if block_hash is None or pool.get_cached_block(block_hash) or not pool.num_free_blocks:
            return
        copy = next(iter(pool.free_queue))
        self._drop(copy, "reused")
        pool.take_free_block(copy)
        pool.cache_block(copy, block_hash, block.parent_hash)
        pool.release(copy)
        self._stores[copy.block_id] = block
        self._counters.stored_blocks += 1
        if self._bus.active:
            hashes = short_hash(block_hash), short_hash(block.parent_hash)
            self._bus.emit(ev.KVStore, block.block_id, copy.block_id, *hashes)

    def _drop(self, copy: KVCacheBlock, why: Literal["reused", "failed"]) -> None:
        """Forget what a block of the host holds, if it holds something."""
        if copy.block_hash is not None:
            self._counters.lost_blocks += 1
            if self._bus.active:
                self._bus.emit(ev.KVLost, copy.block_id, short_hash(copy.block_hash), why)
            self.pool.evict(copy)

    def invalidate(self, blocks: Iterable[KVCacheBlock]) -> None:
        for block in blocks:
            if block.block_hash and (copy := self.pool.get_cached_block(block.block_hash)):
                self._drop(copy, "failed")

    # ---- loads ----

    def get_num_new_matched_tokens(self, sequence: Sequence, num_computed_tokens: int) -> int:
        """Look up the blocks after the hits, and save what their load will push out of the pool."""
        if sequence.wants_prompt_logprobs:  # every prompt token must be computed
            return 0
        size = self._manager.block_size
        rest = sequence.block_hashes[num_computed_tokens // size :]
        # A load takes more blocks at once than a step's tokens do: the cursor goes ahead of it.
        if rest and self.pool.get_cached_block(rest[0]) and self._num_ahead is not None:
            self._rescue(self._manager.num_blocks_for(sequence.num_tokens))
        return size * sum(1 for _ in takewhile(self.pool.get_cached_block, rest))

    def _pin(self, sequence: Sequence, first: int, end: int) -> list[KVCacheBlock]:
        sources = [self.pool.get_cached_block(it) for it in sequence.block_hashes[first:end]]
        for source in sources:
            self.pool.touch(source)
        return sources

    def _unpin(self, sources: list[KVCacheBlock]) -> None:
        # As in the first pool, the end of a prefix is reused before its beginning.
        for source in reversed(sources):
            self.pool.release(source)

    def start_load_kv(self, plan: SchedulerOutput) -> None:
        self._scheduled = plan.scheduled
        stores = [BlockCopy(block.block_id, copy) for copy, block in self._stores.items()]
        # Cautious: nobody writes into the source of an eager store, but it has an owner, too.
        overwritten = any(block.ref_cnt for block in self._stores.values())
        begun = [load for load in self.loads.values() if load.mark is None]
        pairs = (zip(*reversed(load.ids), strict=True) for load in begun)
        loads = [BlockCopy(*pair) for load in pairs for pair in load]
        mark = self._copier.copy(stores, loads, overwritten)
        for load in begun:
            load.mark, load.ends_at = mark, self._link.send(len(load.blocks))
        self._stores = {}

    # ---- views ----

    def state(self) -> dict[str, object]:
        blocks = [
            BlockState(block.ref_cnt, *map(short_hash, (block.block_hash, block.parent_hash)))
            for block in self.pool.blocks
        ]
        return super().state() | {"host_blocks": blocks, "host_queue": self.pool.free_queue.ids()}

    def violations(self) -> Iterator[tuple[str, str]]:
        yield from super().violations()
        pool, loads = self.pool, self.loads.values()
        readers = Counter(source for load in loads for source in load.sources)
        free = set(pool.free_queue)
        for block in pool.blocks:
            if block.ref_cnt != readers[block] or (block in free) != (block.ref_cnt == 0):
                yield "a block of the host is pinned exactly while loads read it", f"{block!r}"
        held = [block.block_hash for block in pool.blocks if block.block_hash is not None]
        if len(set(held)) != len(held) or set(held) != pool.cached_blocks().keys():
            yield "a hash is in the host's memory at most once", f"{held}"
