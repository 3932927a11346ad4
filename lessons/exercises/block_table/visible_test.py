"""The README's examples as tests, for `pytest visible_test.py`."""

from kv_cache_manager import KVCacheManager

from minivllm.lessons.checker.cases.manager_operations import manager_of, sequence_of, table_of


def test_a_block_is_needed_for_each_block_size_tokens_begun():
    manager = manager_of(6, kind=KVCacheManager)
    assert [manager.num_blocks_for(number) for number in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]


def test_a_table_grows_only_by_what_is_missing():
    manager, sequence = manager_of(6, kind=KVCacheManager), sequence_of(0, [*range(9)])
    manager.allocate_slots(sequence, 5)
    assert table_of(sequence) == [0, 1]
    manager.allocate_slots(sequence, 8)
    assert table_of(sequence) == [0, 1]
    manager.allocate_slots(sequence, 9)
    assert table_of(sequence) == [0, 1, 2]


def test_all_blocks_come_back_from_the_tail_on():
    manager, sequence = manager_of(6, kind=KVCacheManager), sequence_of(0, [*range(9)])
    manager.allocate_slots(sequence, 9)
    manager.free(sequence)
    assert table_of(sequence) == []
    # Uncached blocks are reused first, and of these the tail of the table.
    assert manager.pool.free_queue.ids() == [2, 1, 0, 3, 4, 5]
