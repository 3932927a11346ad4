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

The sequence is not in `running`, so it is never preempted, and a copy never writes into a block of
somebody else.

Source: vLLM `vllm/distributed/kv_transfer/kv_connector/v1/base.py` (`KVConnectorBase_V1`). The
deadlock is in vLLM's pull request 57104.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import takewhile
from typing import Protocol

from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.core.scheduler_output import SchedulerOutput
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.events.state import LoadState


class Mark(Protocol):
    """A point after some copies, as `torch.cuda.Event`."""

    def query(self) -> bool:
        """Whether the copies have been made."""

    def synchronize(self) -> None:
        """Wait until they have."""


@dataclass(slots=True, eq=False)
class Load:
    """Blocks on their way to a waiting sequence."""

    sequence: Sequence
    blocks: list[KVCacheBlock]
    """The part of the sequence's block table that is filled."""
    sources: list[KVCacheBlock]
    """What is read in the other memory, in the same order."""
    mark: Mark | None = None
    """None before the copies are issued."""
    ends_at: float = 0.0
    """When the copies would end on a GPU, on the virtual clock."""

    @property
    def ids(self) -> tuple[list[int], list[int]]:
        """The ids of `blocks` and of `sources`."""
        return [block.block_id for block in self.blocks], [block.block_id for block in self.sources]


class KVConnector(ABC):
    def __init__(self, scheduler: Scheduler, bus: EventBus) -> None:
        self.loads: dict[Sequence, Load] = {}
        self.loaded: dict[Sequence, int] = {}
        """Sequences whose load has ended and that are not admitted yet, with the number of their
        tokens that their blocks hold.
        """
        self.num_cpu_blocks = 0
        """Blocks in the host's memory."""
        self._manager, self._counters = scheduler.kv_cache_manager, scheduler.counters
        self._bus = bus
        self._has_begun = False

    # ---- scheduler ----

    def begin_step(self) -> None:
        """End the loads whose blocks have arrived. Called before anything is planned."""
        for load in [load for load in self.loads.values() if self.has_ended(load)]:
            self._end_load(load, len(load.blocks))

    @abstractmethod
    def has_ended(self, load: Load) -> bool:
        """Whether the blocks of `load` have arrived."""

    @abstractmethod
    def get_num_new_matched_tokens(self, sequence: Sequence, num_computed_tokens: int) -> int:
        """Return how many tokens can be loaded, in whole blocks. Changes nothing in the pool.

        num_computed_tokens: tokens in hits of the prefix cache; what is loaded follows them
        """

    def update_state_after_alloc(self, sequence: Sequence, num_external_tokens: int) -> None:
        """Begin to load into the blocks after the sequence's hits."""
        first = _num_hashed(sequence)
        end = first + num_external_tokens // self._manager.block_size
        load = Load(sequence, sequence.block_table[first:end], self._pin(sequence, first, end))
        self.loads[sequence] = load
        self._has_begun = True
        if self._bus.active:
            self._bus.emit(ev.KVLoad, sequence.seq_id, sequence.slot, *load.ids)

    def has_begun(self) -> bool:
        """Whether a load has begun since the last call. Then those behind it may be admitted."""
        begun, self._has_begun = self._has_begun, False
        return begun

    @abstractmethod
    def _pin(self, sequence: Sequence, first: int, end: int) -> list[KVCacheBlock]:
        """Return the sources of blocks [first, end) of the sequence. They are kept for the load."""

    @abstractmethod
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

    @abstractmethod
    def invalidate(self, blocks: Iterable[KVCacheBlock]) -> None:
        """Forget what was stored of `blocks`: their request has failed, and they may be NaN."""

    # ---- model ----

    @abstractmethod
    def start_load_kv(self, plan: SchedulerOutput) -> None:
        """Issue the copies: stores, then loads. Called for every plan, before it runs."""

    # ---- views ----

    def state(self) -> dict[str, object]:
        """Return the fields of `EngineState` that belong to the connector."""
        loads = self.loads.items()
        return {"loads": {sequence.seq_id: LoadState(*load.ids) for sequence, load in loads}}

    def violations(self) -> Iterator[tuple[str, str]]:
        """Yield the name and the details of each broken rule, see `minivllm.core.invariants`."""
        for sequence, load in self.loads.items():
            if any(block.ref_cnt != 1 or block.block_hash is not None for block in load.blocks):
                detail = f"{sequence!r}: {load.blocks}"
                yield "a block that is being loaded has one owner and no hash", detail


def _num_hashed(sequence: Sequence) -> int:
    """Count the blocks at the start of the table that are hits."""
    return sum(1 for _ in takewhile(lambda block: block.block_hash, sequence.block_table))
