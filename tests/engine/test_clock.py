"""Waiting advances each clock, so that an engine that waits for a time does not wait for ever."""

import pytest

from minivllm.clock import MonotonicClock, ProcessorClock


@pytest.mark.parametrize("clock", [MonotonicClock(), ProcessorClock()], ids=["real", "processor"])
def test_a_clock_advances_while_the_engine_waits(clock):
    before = clock.now()
    clock.idle()
    assert clock.now() > before
