"""The README's examples as tests, for `pytest visible_test.py`."""

from block_pool import BlockPool, FreeKVCacheBlockQueue, KVCacheBlock

from minivllm.clock import VirtualClock
from minivllm.errors import BlockPoolError
from minivllm.events.bus import EventBus


def blocks_of(number: int) -> list[KVCacheBlock]:
    return [KVCacheBlock(block_id) for block_id in range(number)]


def test_blocks_are_reused_in_the_order_of_the_queue():
    queue = FreeKVCacheBlockQueue(blocks_of(3))
    assert [queue.popleft().block_id for _ in range(3)] == [0, 1, 2]
    assert queue.num_free_blocks == 0


def test_a_block_can_leave_from_the_middle():
    blocks = blocks_of(3)
    queue = FreeKVCacheBlockQueue(blocks)
    queue.remove(blocks[1])
    assert queue.ids() == [0, 2]
    assert queue.num_free_blocks == 2


def test_a_block_that_is_on_the_queue_cannot_join_it_again():
    blocks = blocks_of(2)
    queue = FreeKVCacheBlockQueue(blocks)
    try:
        queue.append(blocks[0])
    except BlockPoolError:
        assert queue.ids() == [0, 1]
        return
    raise AssertionError("it is on the queue twice")


def test_a_cached_block_is_reused_last_and_an_uncached_one_first():
    pool = BlockPool(4, EventBus(VirtualClock()))
    uncached, cached = pool.pop_free_block(), pool.pop_free_block()
    pool.cache_block(cached, b"a name of thirty-two bytes......", None)
    pool.release(cached)
    pool.release(uncached)
    assert pool.free_queue.ids() == [0, 2, 3, 1]
