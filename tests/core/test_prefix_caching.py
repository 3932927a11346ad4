"""Prefix sharing in the whole core, with a model that fails on any stale read.

In the drawings `[0 1 2 3]` is a full block and `[4 5 . .]` a partial one.
"""

from unittest.mock import Mock

import pytest
from support.engine.engine_fakes import WatchedEngine, expected_output

from minivllm.core import kv_cache_manager
from minivllm.core.block_math import hash_block_tokens
from minivllm.events import types as ev


def test_vllms_worked_example_matches_except_for_freed_partial_blocks():
    """vLLM's `docs/design/prefix_caching.md`: ten blocks of four tokens, three requests.

    On that page all freed blocks go to the tail of the free queue: the order is 7-8-9-4-3-2-6-5-1-0
    and block 3 is evicted. Since 2026-05 vLLM puts blocks without a hash at the head, as we do: the
    order is 6-4-7-8-9-3-2-5-1-0, and nothing cached is evicted.
    """
    engine = WatchedEngine(num_blocks=10, block_size=4)
    prompt_0 = list(range(15))
    engine.add("0", prompt_0, max_tokens=4)
    engine.step()
    # Time 1: four blocks, the last with three tokens. Full blocks are cached.
    assert engine.table("0") == [0, 1, 2, 3]
    assert [bool(block.hash) for block in engine.fold.blocks[:5]] == [True] * 3 + [False] * 2
    engine.step()
    engine.step()
    # Times 2 and 3: block 3 fills up and is cached, then block 4 begins.
    assert engine.table("0") == [0, 1, 2, 3, 4]
    assert engine.fold.blocks[3].hash is not None and engine.fold.blocks[4].hash is None

    # Time 4: request 1 shares the first ten tokens: two full blocks hit, two are new.
    engine.add("1", [*prompt_0[:10], 50, 51, 52, 53], max_tokens=2)
    engine.step()
    assert engine.fold.sequences["1.0"].block_table == [0, 1, 5, 6]
    assert [engine.fold.blocks[i].ref_cnt for i in (0, 1)] == [1, 1], (
        "request 0 has ended, but request 1 still holds them"
    )
    # Time 5: request 0 has ended. Block 4 was partial: head. Blocks 3 and 2 are cached: tail.
    assert list(engine.fold.free_queue) == [4, 7, 8, 9, 3, 2]
    engine.step()
    # Time 6: request 1 has ended too.
    assert list(engine.fold.free_queue) == [6, 4, 7, 8, 9, 3, 2, 5, 1, 0]

    # Time 7: request 2 shares the first twelve tokens. Three hits leave the middle of the queue.
    engine.add("2", [*prompt_0[:12], *range(60, 77)], max_tokens=2)
    before = len(engine.events)
    engine.step()
    events = engine.events[before:]
    hits = [event.block_id for event in events if type(event) is ev.BlockHit]
    assert hits == [0, 1, 2]
    assert engine.table("2") == [0, 1, 2, 6, 4, 7, 8, 9]
    assert list(engine.fold.free_queue) == [3, 5]
    assert engine.events_of(ev.BlockEvicted) == []


@pytest.mark.parametrize("num_tokens, cached, run", [(7, 4, 3), (8, 8, 1), (9, 8, 1), (12, 12, 1)])
def test_a_repeated_prompt_computes_only_tokens_outside_cached_blocks(num_tokens, cached, run):
    engine = WatchedEngine()
    prompt = list(range(num_tokens))
    engine.add("a", prompt, max_tokens=1)
    engine.run()
    before, written = engine.runner.num_tokens_run, dict(engine.runner.kv)
    engine.add("b", prompt, max_tokens=1)
    engine.run()
    if cached == num_tokens:
        # nano-vllm #144: a fully cached prompt left no query token and crashed the kernel.
        assert engine.runner.kv == written, "its last token runs again and is not written"
    assert engine.outputs["b"].num_cached_tokens == cached
    assert engine.runner.num_tokens_run - before == run
    assert engine.token_ids("a") == engine.token_ids("b") == expected_output(prompt, 1)


def test_each_block_is_hashed_once_across_steps_chunks_and_preemptions(monkeypatch):
    hashes = Mock(wraps=hash_block_tokens)
    monkeypatch.setattr(kv_cache_manager, "hash_block_tokens", hashes)
    engine = WatchedEngine(num_blocks=12, max_num_batched_tokens=6)
    for name, first in (("a", 0), ("b", 40)):
        engine.add(name, list(range(first, first + 14)), max_tokens=16)
    engine.run()
    assert engine.engine.inspect().counters.num_preemptions > 0
    hashed = [(parent, tuple(ids)) for (parent, ids, _), _ in hashes.call_args_list]
    assert len(hashed) == len(set(hashed)) == 2 * ((14 + 15) // 4)
