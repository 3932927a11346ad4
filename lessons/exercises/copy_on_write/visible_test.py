"""The README's examples as tests, for `pytest visible_test.py`."""

from kv_cache_manager import KVCacheManager

from minivllm.lessons.checker.cases.manager_operations import manager_of, sequence_of
from minivllm.lessons.checker.cases.manager_operations import table_of as table


def three_samples():
    """A manager, and three forks of a 6-token prompt, each with one token not written yet."""
    manager, first = manager_of(8, kind=KVCacheManager), sequence_of(0, [1, 2, 3, 4, 5, 6])
    manager.allocate_slots(first, 6)
    first.num_computed_tokens = 6
    samples = [first]
    for _ in range(2):
        child = first.fork()
        manager.fork(first, child)
        samples.append(child)
    for token_id, sample in enumerate(samples, 7):
        sample.append_token(token_id)
    return manager, samples


def test_a_fork_shares_all_blocks_and_copies_none():
    manager, samples = three_samples()
    assert [table(sample) for sample in samples] == [[0, 1], [0, 1], [0, 1]]
    assert [block.ref_cnt for block in samples[0].block_table] == [3, 3]
    assert manager.take_copies() == []


def test_the_first_two_that_write_get_a_copy():
    manager, (first, second, third) = three_samples()
    for sample in (first, second):
        assert manager.writes_to_shared_block(sample)
        manager.allocate_slots(sample, 7)
    assert (table(first), table(second), table(third)) == ([0, 2], [0, 3], [0, 1])
    assert manager.take_copies() == [(1, 2), (1, 3)]


def test_the_last_one_writes_in_place():
    manager, (first, second, third) = three_samples()
    manager.allocate_slots(first, 7)
    manager.allocate_slots(second, 7)
    assert not manager.writes_to_shared_block(third)
    manager.allocate_slots(third, 7)
    assert table(third) == [0, 1]
    assert len(manager.take_copies()) == 2


def test_a_child_that_grows_leaves_its_parent_alone():
    manager, (first, second, _) = three_samples()
    manager.allocate_slots(second, 9)
    assert table(first) == [0, 1]
    assert len(second.block_table) == 3
