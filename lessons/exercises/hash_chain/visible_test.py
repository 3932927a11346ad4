"""The README's examples as tests, for `pytest visible_test.py`."""

from kv_cache_manager import KVCacheManager

from minivllm.lessons.checker.cases.manager_operations import manager_of, sequence_of

A, THE, CAT, SAT, RAN, ON, MAT = range(7)


def manager_that_has_seen(*token_ids: int) -> KVCacheManager:
    manager = manager_of(8, 2, enable_prefix_caching=True, kind=KVCacheManager)
    sequence = sequence_of(0, [*token_ids])
    manager.allocate_slots(sequence, len(token_ids))
    manager.cache_full_blocks(sequence, len(token_ids))
    manager.free(sequence)
    return manager


def lookup(manager: KVCacheManager, *token_ids: int) -> tuple[int, int, int]:
    found = manager.get_computed_blocks(sequence_of(1, [*token_ids]))
    return len(found.blocks), found.num_cached_tokens, found.num_computed_tokens


def test_only_full_blocks_have_a_name():
    manager = manager_that_has_seen(THE, CAT)
    sequence = sequence_of(1, [THE, CAT, SAT])
    manager.get_computed_blocks(sequence)
    assert len(sequence.block_hashes) == 1


def test_a_longer_prompt_finds_all_that_was_there():
    assert lookup(manager_that_has_seen(THE, CAT, SAT, ON), THE, CAT, SAT, ON, MAT) == (2, 4, 4)


def test_of_a_whole_prompt_in_the_cache_one_token_is_still_computed():
    assert lookup(manager_that_has_seen(THE, CAT, SAT, ON), THE, CAT, SAT, ON) == (2, 4, 3)


def test_a_prompt_that_differs_finds_what_comes_before_the_difference():
    manager = manager_that_has_seen(THE, CAT, SAT, ON)
    assert lookup(manager, THE, CAT, RAN, ON) == (1, 2, 2)
    assert lookup(manager, A, CAT, SAT, ON) == (0, 0, 0)
