"""Thousands of requests come and go; the pool is as it was."""

import random

import pytest
from support.engine.engine_fakes import FakeRunner, FakeTokenizer

from minivllm.clock import VirtualClock
from minivllm.config import EngineConfig
from minivllm.core.invariants import check_invariants
from minivllm.engine.engine import LLMEngine
from minivllm.runtime.step_result import StepResult
from minivllm.sampling_params import RequestOutputKind, SamplingParams


class QuickRunner(FakeRunner):
    """Without the read-back, which costs more than all the rest."""

    def execute_model(self, plan, watch):
        return StepResult(logits=None)


@pytest.mark.parametrize("policy", ["fcfs", "priority"])
@pytest.mark.parametrize("number", [500, pytest.param(10_000, marks=pytest.mark.slow)])
def test_thousands_of_random_requests_with_aborts_leak_no_block(policy, number):
    rng = random.Random(f"leaks-{policy}")
    limits = {"block_size": 4, "max_num_seqs": 16, "max_num_batched_tokens": 64}
    config = EngineConfig(model="fake", scheduling_policy=policy, **limits)
    engine = LLMEngine(config, QuickRunner(40, 4), FakeTokenizer(), clock=VirtualClock())
    stems = [[rng.randrange(99) for _ in range(rng.randrange(1, 40))] for _ in range(20)]
    live: list[str] = []
    num_added = 0
    while num_added < number or engine.has_unfinished_requests():
        while num_added < number and len(live) < 30:
            prompt = [*rng.choice(stems), rng.randrange(99)]
            params = SamplingParams(
                max_tokens=rng.randrange(1, 30), output_kind=RequestOutputKind.FINAL_ONLY
            )
            priority = rng.randrange(3) if policy == "priority" else 0
            engine.add_request(str(num_added), {"prompt_token_ids": prompt}, params, priority)
            live.append(str(num_added))
            num_added += 1
        if rng.random() < 0.2 and live:
            engine.abort_request(live.pop(rng.randrange(len(live))))
        done = {output.request_id for output in engine.step()}
        live = [request_id for request_id in live if request_id not in done]

    scheduler = engine._stepper.scheduler
    pool = scheduler.kv_cache_manager.pool
    assert pool.num_free_blocks == len(pool.blocks) == 40
    assert all(block.ref_cnt == 0 for block in pool.blocks)
    assert (len(scheduler.waiting), scheduler.running, scheduler.requests) == (0, [], {})
    assert scheduler.slots.num_free == 16
    assert engine._stepper.output_processor._outputs == {}
    assert check_invariants(scheduler) == []
    counters = scheduler.counters
    assert counters.finished_requests + counters.aborted_requests == number
    assert counters.num_preemptions > number // 100 and counters.prefix_cache_hits > number, (
        "the run was no test of anything"
    )
