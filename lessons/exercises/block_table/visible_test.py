"""The README's examples as tests, for `pytest visible_test.py`."""

from kv_cache_manager import KVCacheManager

from minivllm.clock import VirtualClock
from minivllm.core.block_pool import BlockPool
from minivllm.core.request import Request, Sequence
from minivllm.events.bus import EventBus
from minivllm.sampling_params import SamplingParams


def manager_of(num_blocks: int) -> KVCacheManager:
    bus = EventBus(VirtualClock())
    return KVCacheManager(BlockPool(num_blocks, bus), 4, enable_prefix_caching=False, bus=bus)


def sequence_of(num_tokens: int) -> Sequence:
    return Request("ada", list(range(num_tokens)), SamplingParams()).sequences[0]


def table(sequence: Sequence) -> list[int]:
    return [block.block_id for block in sequence.block_table]


def test_a_block_is_needed_for_each_block_size_tokens_begun():
    manager = manager_of(6)
    assert [manager.num_blocks_for(number) for number in (0, 1, 4, 5, 8, 9)] == [0, 1, 1, 2, 2, 3]


def test_a_table_grows_only_by_what_is_missing():
    manager, sequence = manager_of(6), sequence_of(9)
    manager.allocate_slots(sequence, 5)
    assert table(sequence) == [0, 1]
    manager.allocate_slots(sequence, 8)
    assert table(sequence) == [0, 1]
    manager.allocate_slots(sequence, 9)
    assert table(sequence) == [0, 1, 2]


def test_all_blocks_come_back_from_the_tail_on():
    manager, sequence = manager_of(6), sequence_of(9)
    manager.allocate_slots(sequence, 9)
    manager.free(sequence)
    assert table(sequence) == []
    # Uncached blocks are reused first, and of these the tail of the table.
    assert manager.pool.free_queue.ids() == [2, 1, 0, 3, 4, 5]
