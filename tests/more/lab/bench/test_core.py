"""The core bench, and its claim: planning costs the same in any pool and at any context length.

Time would flake, so the test counts the bytecode instructions of `schedule()`. The count is the
same in every run, and rises with any loop over the pool, a block table or a sequence's tokens.
"""

import sys
from itertools import islice
from types import FrameType

import pytest

from minivllm.clock import MonotonicClock
from minivllm.core.scheduler import Scheduler
from minivllm.events.bus import EventBus
from minivllm.lab.bench.core import BLOCK_SIZE, CoreScenario, build_decoding_scheduler, decode_steps

BASE = CoreScenario(num_running=32, num_blocks=512, context_len=100)


def decoding(scenario: CoreScenario) -> Scheduler:
    return build_decoding_scheduler(scenario, EventBus(MonotonicClock()))


def count_instructions(scenario: CoreScenario) -> int:
    """Bytecode instructions of all `schedule()` calls while each sequence fills one block."""
    scheduler = decoding(scenario)
    count = 0

    def trace(frame: FrameType, event: str, arg: object):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    for _ in islice(decode_steps(scheduler), BLOCK_SIZE):
        before = sys.gettrace()  # of a debugger or a coverage tool
        sys.settrace(trace)
        scheduler.schedule(now=0.0)
        sys.settrace(before)
    return count


def test_planning_cost_depends_only_on_the_number_of_sequences():
    base = count_instructions(BASE)
    assert count_instructions(CoreScenario(32, 16 * 512, 100)) == pytest.approx(base, rel=0.01)
    assert count_instructions(CoreScenario(32, 512, 2004)) == pytest.approx(base, rel=0.01)
    # This also shows that the counter counts.
    assert count_instructions(CoreScenario(64, 512, 100)) == pytest.approx(2 * base, rel=0.05)
    assert base > 32 * BLOCK_SIZE * 10


def test_block_boundaries_are_spread_over_the_steps_or_fall_together_as_asked():
    def blocks_taken(together: bool) -> list[int]:
        scheduler = decoding(CoreScenario(32, 512, 100, together=together))
        pool = scheduler.kv_cache_manager.pool
        taken = []
        for _ in islice(decode_steps(scheduler), BLOCK_SIZE):
            before = pool.num_free_blocks
            scheduler.schedule(now=0.0)
            taken.append(before - pool.num_free_blocks)
        return taken

    assert blocks_taken(together=False) == [2] * BLOCK_SIZE
    assert sorted(blocks_taken(together=True)) == [0] * (BLOCK_SIZE - 1) + [32]


def test_every_step_of_the_bench_is_one_decode_of_every_sequence() -> None:
    scheduler = decoding(BASE)
    for _ in islice(decode_steps(scheduler), 40):
        plan = scheduler.schedule(now=0.0)
        assert [item.kind for item in plan.scheduled] == ["decode"] * BASE.num_running
        assert not plan.preempted
