"""The README's examples as tests, for `pytest visible_test.py`."""

from types import SimpleNamespace

from host_tier import Copier, Link, SimpleCPUOffloadConnector

from minivllm.clock import VirtualClock
from minivllm.events.bus import EventBus
from minivllm.events.state import Counters
from minivllm.lessons.checker.cases.manager_operations import manager_of, sequence_of

PROMPT = [1, 2, 3, 4, 1, 5]


def tokens_to_load(num_hits: int, saved: tuple[int, ...]) -> int:
    """num_hits: blocks in the prefix cache; saved: entries that the host has"""
    manager = manager_of(8, 2, enable_prefix_caching=True)
    scheduler = SimpleNamespace(kv_cache_manager=manager, counters=Counters())
    link = Link(VirtualClock(), 0.0)
    connector = SimpleCPUOffloadConnector(
        scheduler, EventBus(VirtualClock()), 8, Copier(), link, None
    )
    first = sequence_of(0, PROMPT)
    manager.allocate_slots(first, len(PROMPT))
    manager.cache_full_blocks(first, len(PROMPT))
    for entry in saved:
        connector._store(first.block_table[entry])
    again = sequence_of(1, PROMPT)
    again.block_hashes = first.block_hashes
    return connector.get_num_new_matched_tokens(again, 2 * num_hits)


def test_without_hits_all_blocks_come_from_the_host():
    assert tokens_to_load(0, (0, 1, 2)) == 6


def test_the_hosts_blocks_follow_the_hits():
    assert tokens_to_load(1, (0, 1, 2)) == 4
    assert tokens_to_load(1, (1,)) == 2


def test_a_chain_ends_at_the_first_missing_block():
    assert tokens_to_load(0, (1, 2)) == 0
