"""The README's examples as tests, for `pytest visible_test.py`."""

from block_math import NOT_WRITTEN, slot_mapping

from minivllm.core.block_pool import KVCacheBlock
from minivllm.lessons.checker.cases.manager_operations import sequence_of


def scattered(block_ids, num_cached=0):
    sequence = sequence_of(0, list(range(8)))
    sequence.block_table = [KVCacheBlock(block_id) for block_id in block_ids]
    sequence.num_cached_tokens = num_cached
    return sequence


def test_a_token_lies_where_the_block_table_says():
    assert slot_mapping(scattered([7, 2]), 0, 8, 4) == [28, 29, 30, 31, 8, 9, 10, 11]


def test_a_chunk_begins_where_the_last_one_ended():
    assert slot_mapping(scattered([7, 2]), 2, 4, 4) == [30, 31, 8, 9]


def test_a_single_new_token_follows_the_same_rule():
    assert slot_mapping(scattered([7, 2]), 5, 1, 4) == [9]


def test_what_the_cache_has_is_not_written():
    assert slot_mapping(scattered([7, 2], num_cached=8), 7, 1, 4) == [NOT_WRITTEN]
