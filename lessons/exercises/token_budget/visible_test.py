"""The README's examples as tests, for `pytest visible_test.py`."""

from scheduler import Scheduler

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.block_pool import BlockPool
from minivllm.core.kv_cache_manager import KVCacheManager
from minivllm.core.request import Request
from minivllm.events.bus import EventBus
from minivllm.sampling_params import SamplingParams


def scheduler_of(budget, num_blocks=32, max_num_seqs=4):
    bus = EventBus(VirtualClock())
    manager = KVCacheManager(
        BlockPool(num_blocks, bus), block_size=4, enable_prefix_caching=False, bus=bus
    )
    config = EngineConfig(max_num_seqs=max_num_seqs, max_num_batched_tokens=budget)
    return Scheduler(config, manager, max_model_len=64, bus=bus)


def add(scheduler, name, num_tokens):
    number = len(scheduler.requests)
    scheduler.add_request(
        Request(name, list(range(num_tokens)), SamplingParams(), arrival_number=number)
    )


def step(scheduler):
    """Run one step and return each request's tokens. Sampling sequences get a token."""
    plan = scheduler.schedule(now=0.0)
    for item in plan.scheduled:
        for sequence in item.sampling:
            sequence.append_token(7)
    return {item.sequence.request.request_id: item.num_tokens for item in plan.scheduled}


def test_those_who_write_come_first_and_prompts_get_what_is_left():
    scheduler = scheduler_of(budget=8)
    add(scheduler, "ada", 2)
    add(scheduler, "ben", 2)
    assert step(scheduler) == {"ada": 2, "ben": 2}
    add(scheduler, "cleo", 20)
    add(scheduler, "dan", 3)
    assert step(scheduler) == {"ada": 1, "ben": 1, "cleo": 6}
    assert step(scheduler) == {"ada": 1, "ben": 1, "cleo": 6}
    assert step(scheduler) == {"ada": 1, "ben": 1, "cleo": 6}
    assert step(scheduler) == {"ada": 1, "ben": 1, "cleo": 2, "dan": 3}


def test_who_waits_knows_why():
    scheduler = scheduler_of(budget=8, max_num_seqs=1)
    add(scheduler, "ada", 2)
    add(scheduler, "ben", 2)
    step(scheduler)
    assert scheduler.waiting.peek().deferred == ("max_num_seqs", 1, 0)


def test_nobody_overtakes_the_first_who_does_not_fit():
    scheduler = scheduler_of(budget=32, num_blocks=4)
    add(scheduler, "ada", 8)
    add(scheduler, "ben", 12)
    add(scheduler, "cleo", 2)
    assert step(scheduler) == {"ada": 8}


def test_nobody_comes_in_when_somebody_was_preempted():
    scheduler = scheduler_of(budget=32, num_blocks=4)
    add(scheduler, "ada", 8)
    add(scheduler, "ben", 8)
    step(scheduler)
    add(scheduler, "cleo", 1)
    assert step(scheduler) == {"ada": 1}
    assert scheduler.waiting.peek().request.request_id == "ben"
    assert scheduler.waiting.peek().deferred[0] == "preempted_this_step"
