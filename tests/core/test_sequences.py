"""`Request` and `Sequence` in isolation, and the slots of a sequence's tokens."""

import pytest
from support.engine.engine_fakes import WatchedEngine

from minivllm.clock import VirtualClock
from minivllm.core.admission import BatchSlots
from minivllm.core.block_math import NOT_WRITTEN, slot_mapping
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request, RequestStatus, Sequence
from minivllm.events.bus import EventBus
from minivllm.sampling_params import SamplingParams


def request(num_tokens: int = 10, **params: object) -> Request:
    return Request(
        "r", list(range(num_tokens)), SamplingParams(**params), cache_salt=params.pop("salt", None)
    )


def new_manager(num_blocks: int) -> KVCacheManager:
    bus = EventBus(VirtualClock())
    return KVCacheManager(BlockPool(num_blocks, bus), 4, True, bus)


@pytest.mark.parametrize(
    "start, num_tokens, num_cached, slots",
    [
        (0, 10, 0, [28, 29, 30, 31, 8, 9, 10, 11, 20, 21]),
        (3, 4, 0, [31, 8, 9, 10]),
        (7, 3, 8, [NOT_WRITTEN, 20, 21]),
    ],
    ids=["a prompt", "a chunk", "cached tokens are not written"],
)
def test_each_token_has_its_slot(start, num_tokens, num_cached, slots):
    sequence, pool = request().sequences[0], BlockPool(10, EventBus(VirtualClock()))
    sequence.block_table = [pool.blocks[block_id] for block_id in (7, 2, 5)]
    sequence.num_cached_tokens = num_cached
    assert slot_mapping(sequence, start, num_tokens, 4) == slots


def test_a_sequence_keeps_its_finish_reason():
    engine = WatchedEngine()
    engine.add("a", [1, 2, 3])
    engine.step()
    (sequence,) = engine.scheduler.running
    engine.scheduler.finish(sequence, RequestStatus.FINISHED_STOPPED, 17)
    assert (sequence.status, sequence.stop_reason) == (RequestStatus.FINISHED_STOPPED, 17)


class TestForks:
    def test_a_fork_starts_as_a_copy_and_then_changes_independently(self):
        parent = request(n=3).sequences[0]
        parent.num_computed_tokens, parent.num_cached_tokens = 10, 8
        child, other = parent.fork(), parent.fork()
        assert [sequence.seq_id for sequence in parent.request.sequences] == ["r.0", "r.1", "r.2"]
        assert [sequence.index for sequence in (parent, child, other)] == [0, 1, 2]
        assert (child.num_computed_tokens, child.num_cached_tokens) == (10, 8)
        child.append_token(77)
        assert parent.token_ids == other.token_ids == list(range(10))
        assert (child.num_tokens, child.num_output_tokens, child.output_token_ids) == (11, 1, [77])

    def test_only_the_first_sample_computes_prompt_logprobs(self):
        parent = request(n=2, prompt_logprobs=0).sequences[0]
        assert parent.wants_prompt_logprobs and not parent.fork().wants_prompt_logprobs
        assert not request().sequences[0].wants_prompt_logprobs


def test_a_request_derives_its_needs_from_its_parameters():
    assert request(n=1, best_of=2).num_logprobs == 0, "needed to choose the best"
    assert request(n=1, best_of=2, logprobs=3).num_logprobs == 3
    assert request(n=2).num_logprobs is None
    wide = [request(**params).num_unforked for params in ({}, {"n": 3}, {"n": 1, "best_of": 4})]
    assert wide == [0, 2, 3], "one sequence exists, the others must be forked"
    assert Request("r", [1], SamplingParams(), cache_salt="").extra_keys == (("cache_salt", ""),)
    assert Request("r", [1], SamplingParams()).extra_keys == ()


def test_slots_are_reserved_once_for_all_sequences_of_a_request():
    slots, ask = BatchSlots(4), request(n=3)
    assert slots.num_needed(ask) == 3
    slots.take(ask.sequences[0])
    assert (ask.sequences[0].slot, ask.kept_slots, slots.free) == (0, [1, 2], [3])
    assert slots.num_needed(ask) == 1
    child = ask.sequences[0].fork()
    slots.take_for_fork(child)
    assert (child.slot, ask.kept_slots, ask.num_unforked, slots.num_needed(ask)) == (1, [2], 1, 1)
    slots.release(child, for_fork=True)
    assert (child.slot, sorted(ask.kept_slots), ask.num_unforked) == (None, [1, 2], 2)
    slots.release(ask.sequences[0])
    assert (slots.free, ask.kept_slots) == ([0, 1, 2, 3], [])


class TestMemoryAsked:
    """Direct calls of the KV cache manager, for cases that are rare in a whole engine."""

    def hit(self, num_blocks: int = 60) -> tuple[KVCacheManager, Sequence]:
        """A sequence with a fully cached prompt of two blocks, which recomputes its last token."""
        manager = new_manager(num_blocks)
        first, sequence = request(8).sequences[0], request(8).sequences[0]
        manager.allocate_slots(first, 8)
        manager.cache_full_blocks(first, 8)
        computed = manager.get_computed_blocks(sequence)
        assert (computed.num_cached_tokens, computed.num_computed_tokens) == (8, 7)
        manager.allocate_slots(sequence, 8, computed)
        sequence.num_cached_tokens, sequence.num_computed_tokens = 8, 7
        return manager, sequence

    def test_a_recomputed_cached_token_is_not_written_so_nothing_is_copied(self):
        manager, sequence = self.hit()
        assert sequence.block_table[1].ref_cnt == 2
        assert not manager.writes_to_shared_block(sequence)
        manager.allocate_slots(sequence, 9)
        assert manager.take_copies() == [] and manager.num_copied_blocks == 0

    def test_blocks_in_use_keep_their_hashes_when_unused_ones_are_evicted(self):
        manager, sequence = self.hit()
        used, unused = sequence.block_table
        manager.pool.release(unused)
        manager.pool.release(unused)
        manager.evict_unused([used, unused])
        assert (used.ref_cnt, unused.ref_cnt) == (2, 0)
        assert used.block_hash is not None and unused.block_hash is None

    def test_a_prefix_hit_ends_at_its_first_missing_block(self):
        manager, first = new_manager(9), request(16).sequences[0]
        manager.allocate_slots(first, 16)
        manager.cache_full_blocks(first, 16)
        table = list(first.block_table)
        manager.free(first)
        manager.evict_unused([table[1]])
        computed = manager.get_computed_blocks(request(16).sequences[0])
        assert computed.blocks == [table[0]]
        assert computed.num_cached_tokens == computed.num_computed_tokens == 4
