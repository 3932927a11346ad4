"""The README's examples as tests, for `pytest visible_test.py`."""

from scheduler import Scheduler

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.events.bus import EventBus
from minivllm.sampling_params import SamplingParams


def scheduler_of(num_batched_tokens, chunked=True):
    bus = EventBus(VirtualClock())
    manager = KVCacheManager(BlockPool(16, bus), block_size=4, enable_prefix_caching=True, bus=bus)
    config = EngineConfig(
        max_num_seqs=4,
        max_num_batched_tokens=num_batched_tokens,
        enable_chunked_prefill=chunked,
    )
    return Scheduler(config, manager, max_model_len=64, bus=bus)


def request_of(num_tokens):
    return Request("ben", list(range(num_tokens)), SamplingParams())


def test_a_prompt_that_the_cache_has_in_part_gets_what_the_step_has_left():
    ben = request_of(20).sequences[0]
    assert scheduler_of(8)._first_chunk(ben, start=4, budget=7) == 7
    assert scheduler_of(8)._first_chunk(ben, start=4, budget=100) == 16


def test_without_chunks_it_is_all_or_nothing():
    ben = request_of(20).sequences[0]
    scheduler = scheduler_of(64, chunked=False)
    assert scheduler._first_chunk(ben, start=4, budget=15) == 0
    assert scheduler._first_chunk(ben, start=4, budget=16) == 16


def test_a_prompt_advances_by_its_chunks_and_the_last_one_predicts():
    scheduler = scheduler_of(8)
    scheduler.add_request(request_of(20))
    steps = [scheduler.schedule(now=0.0).scheduled[0] for _ in range(3)]
    assert [(item.start, item.num_tokens) for item in steps] == [(0, 8), (8, 8), (16, 4)]
    assert [len(item.sampling) for item in steps] == [0, 0, 1]
