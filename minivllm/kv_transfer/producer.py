"""`KVProducer`: the prefill side. It keeps a prompt's blocks until the decoder has read them.

    prompt computed  -->  lease: its full blocks have one more owner
    decoder has read them, or `kv_lease_duration` is over  -->  they are free, and still cached

The decoder asks with the hashes of the blocks that it lacks. The last one depends on the whole
prompt and its salt, so it names the lease. Block ids never leave the engine.

Nobody writes into leased blocks, so other threads may read them, also while the engine sleeps. Only
the engine's thread ends leases, at the beginning of a step.

Source: vLLM `vllm/distributed/kv_transfer/kv_connector/v1/nixl/pull_scheduler.py`.
"""

from collections import Counter, deque
from collections.abc import Iterable, Iterator
from itertools import count
from threading import Lock
from typing import Any, Literal, NamedTuple

from minivllm.core.block_pool import BlockHash, KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler import Scheduler
from minivllm.events import types as ev
from minivllm.events.bus import EventBus
from minivllm.kv_transfer.connector import KVConnector, Link


class Lease(NamedTuple):
    blocks: list[KVCacheBlock]  # all full ones of a prompt
    until: float


class KVProducer(KVConnector):
    def __init__(
        self, scheduler: Scheduler, bus: EventBus, link: Link, memory: Any, duration: float
    ) -> None:
        """memory: as `block_bytes.BlockBytes`; duration: of a lease, on the link's clock"""
        super().__init__(scheduler, bus, link)
        self.memory, self._duration = memory, duration
        self.leases: dict[int, Lease] = {}
        self.read_leases: deque[int] = deque()
        """Numbers of leases whose blocks the decoder has. Any thread may append to it."""
        self._numbers = count()
        self._lock = Lock()  # held while blocks are read, and while a lease begins or ends

    @property
    def held(self) -> Counter[int]:
        """How often each block is leased, by its id."""
        return Counter(it.block_id for lease in self.leases.values() for it in lease.blocks)

    def request_finished(self, sequence: Sequence) -> None:
        blocks = sequence.block_table[: sequence.num_prompt_tokens // self._manager.block_size]
        if blocks and sequence.index == 0 and sequence.status.finish_reason in ("stop", "length"):
            number, until = next(self._numbers), self._link.now() + self._duration
            for block in blocks:
                self._manager.pool.touch(block)
            with self._lock:
                self.leases[number] = Lease(blocks, until)
            if self._bus.active:
                ids = [block.block_id for block in blocks]
                self._bus.emit(ev.KVLease, number, sequence.seq_id, ids, until)

    def begin_step(self) -> None:
        while self.read_leases:
            self._end_lease(self.read_leases.popleft(), "read")
        for number, lease in list(self.leases.items()):
            if lease.until <= self._link.now():
                self._end_lease(number, "expired")

    def _end_lease(self, number: int, why: Literal["read", "expired", "failed"]) -> None:
        with self._lock:
            lease = self.leases.pop(number, None)
        if lease is not None:  # it has not ended before
            if self._bus.active:
                self._bus.emit(ev.KVReleased, number, why)
            self._manager.pool.free_blocks(lease.blocks[::-1])

    def invalidate(self, blocks: Iterable[KVCacheBlock]) -> None:
        failed = set(blocks)
        for number, lease in list(self.leases.items()):
            if not failed.isdisjoint(lease.blocks):
                self._end_lease(number, "failed")

    def read(self, hashes: list[BlockHash]) -> tuple[int | None, list[bytes]]:
        """Return the bytes of a prompt's last blocks, and the number of their lease. Any thread."""
        with self._lock:
            for number, lease in self.leases.items():
                if hashes and lease.blocks[-1].block_hash == hashes[-1]:
                    blocks = lease.blocks[-len(hashes) :]
                    return number, [self.memory.read(block.block_id) for block in blocks]
        return None, []

    def state(self) -> dict[str, object]:
        blocks = {number: lease.blocks for number, lease in self.leases.items()}
        return {"leases": {n: [block.block_id for block in held] for n, held in blocks.items()}}

    def violations(self) -> Iterator[tuple[str, str]]:
        for lease in self.leases.values():
            if not all(block.block_hash for block in lease.blocks):
                yield "a leased block has a hash", f"{lease}"
