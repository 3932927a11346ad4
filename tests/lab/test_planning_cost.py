"""Planning a step costs the same in any pool and at any context length, as `bench core` claims.

Time would flake, so the test counts the bytecode instructions of `schedule()`. The count is the
same in every run, and rises with any loop over the pool, a block table or a sequence's tokens.
"""

import sys
from itertools import islice
from types import FrameType

import pytest

from minivllm.clock import MonotonicClock
from minivllm.events.bus import EventBus
from minivllm.lab.bench.core import BLOCK_SIZE, CoreScenario, build_decoding_scheduler, decode_steps


def count_instructions(*scenario: int) -> int:
    """Bytecode instructions of all `schedule()` calls while each sequence fills one block."""
    bus = EventBus(MonotonicClock())
    scheduler = build_decoding_scheduler(CoreScenario(*scenario), bus)
    count = 0

    def trace(frame: FrameType, event: str, arg: object):
        nonlocal count
        frame.f_trace_opcodes = True
        count += event == "opcode"
        return trace

    for _ in islice(decode_steps(scheduler), BLOCK_SIZE):
        before = sys.gettrace()  # of a debugger or a coverage tool
        sys.settrace(trace)
        plan = scheduler.schedule(now=0.0)
        sys.settrace(before)
        assert [item.kind for item in plan.scheduled] == ["decode"] * scenario[0]
    return count


def test_planning_cost_depends_only_on_the_number_of_sequences():
    base = count_instructions(32, 512, 100)
    assert count_instructions(32, 16 * 512, 100) == pytest.approx(base, rel=0.01)
    assert count_instructions(32, 512, 2004) == pytest.approx(base, rel=0.01)
    # This also shows that the counter counts.
    assert count_instructions(64, 512, 100) == pytest.approx(2 * base, rel=0.05)
