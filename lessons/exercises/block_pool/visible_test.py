"""The README's examples as tests, for `pytest visible_test.py`."""

from block_pool import BlockPool

from minivllm.clock import VirtualClock
from minivllm.errors import BlockPoolError
from minivllm.events.bus import EventBus


def pool_of(num_blocks: int) -> BlockPool:
    return BlockPool(num_blocks, EventBus(VirtualClock()))


def test_a_block_that_is_handed_out_has_one_owner():
    pool = pool_of(3)
    block = pool.pop_free_block()
    assert block.ref_cnt == 1
    assert pool.free_queue.ids() == [1, 2]


def test_the_second_owner_of_a_block_keeps_it_when_the_first_one_ends():
    pool = pool_of(3)
    block = pool.pop_free_block()
    assert pool.touch(block) is False  # it was in use
    pool.release(block)
    assert block.ref_cnt == 1
    assert pool.free_queue.ids() == [1, 2]


def test_the_last_owner_gives_it_back():
    pool = pool_of(3)
    block = pool.pop_free_block()
    pool.release(block)
    assert block.ref_cnt == 0
    assert sorted(pool.free_queue.ids()) == [0, 1, 2]


def test_a_cached_block_can_be_hit_while_it_is_free():
    pool = pool_of(3)
    block = pool.pop_free_block()
    pool.cache_block(block, b"a name of thirty-two bytes......", None)
    pool.release(block)
    assert pool.get_cached_block(b"a name of thirty-two bytes......") is block
    assert pool.touch(block) is True  # it came off the free queue
    assert pool.free_queue.ids() == [1, 2]


def test_a_block_that_is_freed_twice_is_an_error():
    pool = pool_of(1)
    block = pool.pop_free_block()
    pool.release(block)
    try:
        pool.release(block)
    except BlockPoolError:
        return
    raise AssertionError("the second release went through")
