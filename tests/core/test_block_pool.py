"""The block pool: reference counts, free queue order, and cached blocks that were freed."""

import pytest

from minivllm.clock import VirtualClock
from minivllm.core.block_math import hash_block_tokens
from minivllm.core.block_pool import BlockPool, FreeKVCacheBlockQueue, KVCacheBlock
from minivllm.errors import BlockPoolError
from minivllm.events.bus import EventBus


def make_pool(num_blocks: int) -> BlockPool:
    return BlockPool(num_blocks, EventBus(VirtualClock()))


def name(*token_ids: int) -> bytes:
    return hash_block_tokens(None, token_ids)


def cached_block(pool: BlockPool, block_hash: bytes) -> KVCacheBlock:
    """A block that was used, registered in the cache and freed."""
    block = pool.pop_free_block()
    pool.cache_block(block, block_hash, None)
    pool.release(block)
    return block


class TestFreeQueue:
    def test_blocks_leave_from_anywhere_and_come_back_at_either_end(self):
        blocks = [KVCacheBlock(i) for i in range(5)]
        queue = FreeKVCacheBlockQueue(blocks[:4])
        queue.remove(blocks[2])
        queue.append(blocks[4])
        queue.prepend(blocks[2])
        assert queue.ids() == [2, 0, 1, 3, 4]
        popped = [queue.popleft() for _ in range(queue.num_free_blocks)]
        assert [block.block_id for block in popped] == [2, 0, 1, 3, 4]
        assert {(block.prev_free, block.next_free) for block in popped} == {(None, None)}
        for block in blocks:
            queue.append(block)
        assert (queue.ids(), queue.num_free_blocks) == ([0, 1, 2, 3, 4], 5)

    def test_popping_an_empty_queue_raises_instead_of_returning_a_sentinel(self):
        with pytest.raises(BlockPoolError, match="No free block"):
            FreeKVCacheBlockQueue([]).popleft()
        with pytest.raises(BlockPoolError, match="not on the free queue"):
            FreeKVCacheBlockQueue([]).remove(KVCacheBlock(7))

    @pytest.mark.parametrize("put", ["append", "prepend"])
    def test_a_queued_block_cannot_be_queued_again(self, put):
        blocks = [KVCacheBlock(i) for i in range(3)]
        queue = FreeKVCacheBlockQueue(blocks)
        with pytest.raises(BlockPoolError, match="already on the free queue"):
            getattr(queue, put)(blocks[1])
        assert (queue.ids(), queue.num_free_blocks) == ([0, 1, 2], 3)


def test_only_the_last_owner_frees_a_shared_block():
    pool = make_pool(2)
    block = pool.pop_free_block()
    pool.touch(block)
    pool.release(block)
    assert pool.num_free_blocks == 1
    pool.release(block)
    assert pool.num_free_blocks == 2
    with pytest.raises(BlockPoolError, match="freed twice"):
        pool.release(block)
    assert sorted(pool.free_queue.ids()) == [0, 1]


class TestPrefixCache:
    def test_a_block_taken_by_its_id_loses_its_hash_too(self):
        pool = make_pool(3)
        block = cached_block(pool, name(1, 2))
        pool.take_free_block(block)
        assert (block.ref_cnt, block.block_hash) == (1, None)
        assert pool.get_cached_block(name(1, 2)) is None
        assert pool.free_queue.ids() == [1, 2]

    def test_only_a_block_in_use_without_a_hash_can_be_cached(self):
        pool = make_pool(2)
        block = pool.pop_free_block()
        pool.cache_block(block, name(1), None)
        for wrong in (block, pool.blocks[1]):
            with pytest.raises(BlockPoolError):
                pool.cache_block(wrong, name(2), None)

    def test_the_cache_index_never_outgrows_the_pool(self):
        pool = make_pool(3)
        for token_id in range(50):
            cached_block(pool, name(token_id))
        assert len(pool.cached_blocks()) == 3
        assert len(pool._evicted_hashes) <= 3


def test_no_event_is_made_without_a_subscriber(monkeypatch):
    made = []
    monkeypatch.setattr(EventBus, "emit", lambda bus, *event: made.append(event))
    pool = make_pool(1)
    pool.release(pool.pop_free_block())
    assert made == []
