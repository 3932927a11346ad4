"""`BlockPool`: all KV cache blocks, their reference counts, and the order in which they are reused.

    in use       ref_cnt > 0, not in the free queue; has a hash once it is full
    cached-free  ref_cnt = 0, in the free queue, with its hash: a new prompt can still hit it
    free         ref_cnt = 0, in the free queue, no hash

Freeing is not evicting: a block loses its hash when it is handed out again (or, after a failure,
because nobody knows what it holds). So the order of the free queue is the eviction order (LRU).
Blocks with a hash join at the tail. Blocks without a hash join at the head, since no prompt can hit
them (as in vLLM since 2026-05).

Several blocks may carry the same hash. Freeing a block twice raises an error.

Source: vLLM `vllm/v1/core/block_pool.py`, `kv_cache_utils.py`.
"""

from collections import OrderedDict
from collections.abc import Iterator

from minivllm.errors import BlockPoolError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus

BlockHash = bytes


def short_hash(block_hash: BlockHash | None) -> str | None:
    """Return the first 16 hex digits, for events and screens. Lookups use the full digest."""
    return block_hash and block_hash.hex()[:16]


class KVCacheBlock:
    """Bookkeeping of one block. The runtime's tensors hold its keys and values, at `block_id`."""

    __slots__ = ("block_hash", "block_id", "next_free", "parent_hash", "prev_free", "ref_cnt")

    def __init__(self, block_id: int) -> None:
        self.block_id = block_id
        self.ref_cnt = 0
        self.block_hash: BlockHash | None = None
        self.parent_hash: BlockHash | None = None
        # Links of the free queue; None while the block is in use.
        self.prev_free: KVCacheBlock | None = None
        self.next_free: KVCacheBlock | None = None

    def __repr__(self) -> str:
        cached = self.block_hash is not None
        return f"KVCacheBlock({self.block_id}, ref_cnt={self.ref_cnt}, cached={cached})"


class FreeKVCacheBlockQueue:
    """Free blocks in the order of reuse: a doubly linked list through the blocks themselves.

    A prefix hit removes a block from the middle in O(1); a deque would need O(blocks). Two sentinel
    blocks mark the ends, so that no operation needs a special case there.
    """

    def __init__(self, blocks: list[KVCacheBlock]) -> None:
        self._head = KVCacheBlock(-1)
        self._tail = KVCacheBlock(-1)
        self._head.next_free, self._tail.prev_free = self._tail, self._head
        self.num_free_blocks = 0
        for block in blocks:
            self.append(block)

    def popleft(self) -> KVCacheBlock:
        """Take the block that is reused next. Raise `BlockPoolError` if no block is free."""
        block = self._head.next_free
        if block is self._tail:
            raise BlockPoolError("No free block is left: check num_free_blocks first.")
        self.remove(block)
        return block

    def remove(self, block: KVCacheBlock) -> None:
        """Take `block` out of the queue, from any position, in O(1)."""
        if block.prev_free is None:
            raise BlockPoolError(f"Block {block.block_id} is not on the free queue.")
        block.prev_free.next_free = block.next_free
        block.next_free.prev_free = block.prev_free
        block.prev_free = block.next_free = None
        self.num_free_blocks -= 1

    def append(self, block: KVCacheBlock) -> None:
        """Put `block` last, so that it is reused after all others."""
        self._insert_between(self._tail.prev_free, block, self._tail)

    def prepend(self, block: KVCacheBlock) -> None:
        """Put `block` first, so that it is reused next."""
        self._insert_between(self._head, block, self._head.next_free)

    def _insert_between(self, left: KVCacheBlock, block: KVCacheBlock, right: KVCacheBlock) -> None:
        """Insert `block` between two neighbours. `BlockPoolError` if it is already queued."""
        if block.prev_free is not None:
            raise BlockPoolError(
                f"Block {block.block_id} is already on the free queue: it was freed twice."
            )
        block.prev_free, block.next_free = left, right
        left.next_free = right.prev_free = block
        self.num_free_blocks += 1

    def __iter__(self) -> Iterator[KVCacheBlock]:
        """Yield the free blocks in the order of reuse."""
        block = self._head.next_free
        while block is not self._tail:
            yield block
            block = block.next_free

    def ids(self) -> list[int]:
        """Return all free block ids in the order of reuse. O(free blocks): for views and tests."""
        return [block.block_id for block in self]


class BlockPool:
    """Hands blocks out, takes them back, and finds cached blocks by their hash."""

    def __init__(self, num_blocks: int, bus: EventBus) -> None:
        self.blocks = [KVCacheBlock(block_id) for block_id in range(num_blocks)]
        self.free_queue = FreeKVCacheBlockQueue(self.blocks)
        self.num_evicted_blocks = 0
        self._bus = bus
        # Two sequences may fill equal blocks in the same step. A table keeps its full blocks, so
        # both stay, and a hash maps to all blocks that carry it.
        self._cached: dict[BlockHash, dict[int, KVCacheBlock]] = {}
        # Recently evicted hashes, oldest first, so that a miss can be reported as "evicted".
        self._evicted_hashes: OrderedDict[BlockHash, None] = OrderedDict()

    @property
    def num_free_blocks(self) -> int:
        """How many blocks can be handed out now, cached-free blocks included."""
        return self.free_queue.num_free_blocks

    # ---- the prefix cache ----

    def get_cached_block(self, block_hash: BlockHash) -> KVCacheBlock | None:
        """Return a block with this hash, in use or free; None if no block has it."""
        holders = self._cached.get(block_hash)
        return next(iter(holders.values())) if holders else None

    def was_evicted(self, block_hash: BlockHash) -> bool:
        """Whether this content was cached and evicted, as far as the pool remembers."""
        return block_hash in self._evicted_hashes

    def cache_block(
        self, block: KVCacheBlock, block_hash: BlockHash, parent: BlockHash | None,
        seq_id: str | None = None,
    ) -> None:  # fmt: skip
        """Set the hash of a full block that is in use, so that later prompts can hit the block.

        seq_id: whose block it is, for the event; None: of the sequence that was scheduled last
        """
        if block.ref_cnt == 0 or block.block_hash is not None:
            raise BlockPoolError(f"{block!r} must be in use and have no hash yet to be cached.")
        block.block_hash, block.parent_hash = block_hash, parent
        self._cached.setdefault(block_hash, {})[block.block_id] = block
        self._evicted_hashes.pop(block_hash, None)
        if self._bus.active:
            hashes = short_hash(block_hash), short_hash(parent)
            self._bus.emit(ev.BlockHashed, block.block_id, *hashes, seq_id)

    def evict(self, block: KVCacheBlock) -> None:
        """Remove the hash of a block without owners, if it has a hash."""
        block_hash = block.block_hash
        if block_hash is None:
            return
        if self._bus.active:
            self._bus.emit(ev.BlockEvicted, block.block_id, short_hash(block_hash))
        self.num_evicted_blocks += 1
        holders = self._cached[block_hash]
        del holders[block.block_id]
        if not holders:
            del self._cached[block_hash]
            self._evicted_hashes[block_hash] = None
            if len(self._evicted_hashes) > len(self.blocks):
                self._evicted_hashes.popitem(last=False)
        block.block_hash = block.parent_hash = None

    # ---- reference counts ----

    def pop_free_block(self) -> KVCacheBlock:
        """Hand out the next block to reuse, with ref_cnt 1. Evict the block if it is cached."""
        return self._hand_out(self.free_queue.popleft())

    def take_free_block(self, block: KVCacheBlock) -> None:
        """Hand out this particular free block. The contiguous allocator chooses blocks by id."""
        self.free_queue.remove(block)
        self._hand_out(block)

    def _hand_out(self, block: KVCacheBlock) -> KVCacheBlock:
        """Evict `block`, which has just left the free queue, and give it its first owner."""
        self.evict(block)
        block.ref_cnt = 1
        return block

    def touch(self, block: KVCacheBlock) -> bool:
        """Add an owner to `block`; return whether it was free.

        Touch hits before popping new blocks: a pop may evict a block that a hit needs.
        """
        was_free = block.ref_cnt == 0
        if was_free:
            self.free_queue.remove(block)
        block.ref_cnt += 1
        return was_free

    def free_blocks(self, blocks: list[KVCacheBlock]) -> None:
        """Release each of `blocks`, a table's blocks from tail to head.

            table A B c d (c and d have no hash)  ->  queue  d c ... B A, reused from the left

        So the tail of a cached prefix is reused before its head, which more prompts can hit.
        """
        cached = [block for block in blocks if block.block_hash is not None]
        others = [block for block in blocks if block.block_hash is None]
        # Each prepend goes before the last one, so d comes before c.
        for block in [*cached, *reversed(others)]:
            self.release(block)

    def release(self, block: KVCacheBlock) -> None:
        """Remove one owner. When the last owner is removed, the block joins the free queue."""
        if block.ref_cnt == 0:
            raise BlockPoolError(f"Block {block.block_id} has no owner: it was freed twice.")
        block.ref_cnt -= 1
        if block.ref_cnt == 0:
            self._put_back(block)

    def _put_back(self, block: KVCacheBlock) -> None:
        """Put a block without owners into the free queue; uncached blocks are reused first."""
        cached = block.block_hash is not None
        if cached:
            self.free_queue.append(block)
        else:
            self.free_queue.prepend(block)
        if self._bus.active:
            self._bus.emit(ev.BlockFreed, block.block_id, "tail" if cached else "head")

    def cached_blocks(self) -> dict[BlockHash, set[int]]:
        """Map each hash to the ids of the blocks that carry it: for invariants, views and tests."""
        return {block_hash: set(holders) for block_hash, holders in self._cached.items()}
