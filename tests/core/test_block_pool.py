"""The pool: reference counts, the free queue's order, and the cache that lives in freed blocks."""

import pytest

from minivllm.clock import VirtualClock
from minivllm.core.block_math import hash_block_tokens
from minivllm.core.block_pool import BlockPool, FreeKVCacheBlockQueue, KVCacheBlock
from minivllm.errors import BlockPoolError
from minivllm.events import types as ev
from minivllm.events.bus import EventBus


def make_pool(num_blocks: int) -> BlockPool:
    return BlockPool(num_blocks, EventBus(VirtualClock()))


def name(*token_ids: int) -> bytes:
    return hash_block_tokens(None, token_ids)


class TestFreeQueue:
    def test_a_block_leaves_from_the_middle_and_the_order_of_the_others_stays(self):
        blocks = [KVCacheBlock(i) for i in range(5)]
        queue = FreeKVCacheBlockQueue(blocks)
        queue.remove(blocks[2])
        assert queue.ids() == [0, 1, 3, 4]
        assert queue.num_free_blocks == 4

    def test_append_puts_a_block_last_and_prepend_puts_it_first(self):
        blocks = [KVCacheBlock(i) for i in range(4)]
        queue = FreeKVCacheBlockQueue(blocks[:2])
        queue.append(blocks[2])
        queue.prepend(blocks[3])
        assert queue.ids() == [3, 0, 1, 2]

    @pytest.mark.parametrize("number", [1, 2, 16])
    def test_a_drained_queue_can_be_filled_again(self, number):
        blocks = [KVCacheBlock(i) for i in range(number)]
        queue = FreeKVCacheBlockQueue(blocks)
        for _ in range(number):
            queue.popleft()
        assert queue.ids() == [] and queue.num_free_blocks == 0
        for block in blocks:
            queue.append(block)
        assert queue.ids() == list(range(number))

    def test_popping_an_empty_queue_is_an_error_and_not_a_sentinel(self):
        with pytest.raises(BlockPoolError, match="No free block"):
            FreeKVCacheBlockQueue([]).popleft()

    def test_a_popped_block_keeps_no_links_into_the_queue(self):
        block = FreeKVCacheBlockQueue([KVCacheBlock(i) for i in range(3)]).popleft()
        assert block.prev_free is None and block.next_free is None

    @pytest.mark.parametrize("put", ["append", "prepend"])
    def test_a_block_that_is_queued_cannot_be_queued_again(self, put):
        blocks = [KVCacheBlock(i) for i in range(3)]
        queue = FreeKVCacheBlockQueue(blocks)
        with pytest.raises(BlockPoolError, match="on the free queue already"):
            getattr(queue, put)(blocks[1])
        assert (queue.ids(), queue.num_free_blocks) == ([0, 1, 2], 3)

    def test_removing_a_block_that_is_not_queued_is_an_error(self):
        with pytest.raises(BlockPoolError, match="not on the free queue"):
            FreeKVCacheBlockQueue([]).remove(KVCacheBlock(7))


class TestReferenceCounts:
    def test_a_block_starts_without_owner_or_hash_and_takes_no_stray_attribute(self):
        block = KVCacheBlock(3)
        assert (block.block_id, block.ref_cnt, block.block_hash) == (3, 0, None)
        with pytest.raises(AttributeError):
            block.refcount = 1

    def test_a_shared_block_is_freed_by_its_last_owner_and_not_by_its_first(self):
        pool = make_pool(2)
        block = pool.pop_free_block()
        pool.touch(block)
        pool.release(block)
        assert pool.num_free_blocks == 1
        pool.release(block)
        assert pool.num_free_blocks == 2

    def test_freeing_a_block_twice_is_an_error_and_leaves_the_queue_sound(self):
        pool = make_pool(2)
        block = pool.pop_free_block()
        pool.release(block)
        with pytest.raises(BlockPoolError, match="freed twice"):
            pool.release(block)
        assert sorted(pool.free_queue.ids()) == [0, 1]


class TestPrefixCache:
    def test_freeing_is_not_evicting(self):
        pool = make_pool(2)
        block = pool.pop_free_block()
        pool.cache_block(block, name(1, 2), None)
        pool.release(block)
        assert pool.get_cached_block(name(1, 2)) is block

    def test_reusing_a_cached_block_evicts_its_hash(self):
        pool = make_pool(1)
        block = pool.pop_free_block()
        pool.cache_block(block, name(1, 2), None)
        pool.release(block)
        assert pool.pop_free_block() is block
        assert block.block_hash is None
        assert pool.get_cached_block(name(1, 2)) is None
        assert pool.was_evicted(name(1, 2)) and not pool.was_evicted(name(9, 9))
        assert pool.num_evicted_blocks == 1

    def test_a_block_that_is_asked_for_by_its_address_loses_its_hash_as_any_other(self):
        pool = make_pool(3)
        block = pool.pop_free_block()
        pool.cache_block(block, name(1, 2), None)
        pool.release(block)
        pool.take_free_block(block)
        assert (block.ref_cnt, block.block_hash, pool.get_cached_block(name(1, 2))) == (
            1,
            None,
            None,
        )
        assert pool.free_queue.ids() == [1, 2]

    def test_a_block_without_hash_is_reused_before_any_cached_one(self):
        pool = make_pool(4)
        cached, partial = pool.pop_free_block(), pool.pop_free_block()
        pool.cache_block(cached, name(1), None)
        pool.release(cached)
        pool.release(partial)
        assert pool.free_queue.ids() == [1, 2, 3, 0]

    def test_two_blocks_may_carry_one_hash_and_evicting_one_leaves_the_other_findable(self):
        pool = make_pool(2)
        first, second = pool.pop_free_block(), pool.pop_free_block()
        pool.cache_block(first, name(1), None)
        pool.cache_block(second, name(1), None)
        pool.release(first)
        assert pool.pop_free_block() is first
        assert pool.get_cached_block(name(1)) is second
        assert not pool.was_evicted(name(1))

    def test_only_a_block_in_use_and_without_hash_can_be_cached(self):
        pool = make_pool(2)
        block = pool.pop_free_block()
        pool.cache_block(block, name(1), None)
        with pytest.raises(BlockPoolError):
            pool.cache_block(block, name(2), None)
        with pytest.raises(BlockPoolError):
            pool.cache_block(pool.blocks[1], name(2), None)

    def test_the_cache_index_never_outgrows_the_pool(self):
        pool = make_pool(3)
        for token_id in range(50):
            block = pool.pop_free_block()
            pool.cache_block(block, name(token_id), None)
            pool.release(block)
        assert len(pool.cached_blocks()) == 3
        assert len(pool._evicted_hashes) <= 3


class TestEvents:
    def test_an_eviction_is_told_once_and_before_the_block_is_reused(self):
        bus = EventBus(VirtualClock())
        pool = BlockPool(1, bus)
        seen = []
        bus.subscribe(seen.append)
        block = pool.pop_free_block()
        pool.cache_block(block, name(1), None)
        pool.release(block)
        pool.pop_free_block()
        assert [type(event) for event in seen] == [ev.BlockHashed, ev.BlockFreed, ev.BlockEvicted]
        assert seen[1].position == "tail" and seen[2].block_id == 0

    def test_nothing_is_made_while_nobody_listens(self, monkeypatch):
        made = []
        monkeypatch.setattr(EventBus, "emit", lambda bus, *event: made.append(event))
        pool = BlockPool(1, EventBus(VirtualClock()))
        pool.release(pool.pop_free_block())
        assert made == []
