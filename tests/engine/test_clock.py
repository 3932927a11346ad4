"""What advances each clock."""

import time

import pytest

from minivllm.clock import MonotonicClock, ProcessorClock


def test_on_the_processors_clock_work_takes_time_and_sleep_does_not():
    clock = ProcessorClock()
    before = clock.now()
    time.sleep(0.05)
    assert clock.now() - before < 0.025
    before = clock.now()
    sum(range(200_000))
    assert clock.now() > before


@pytest.mark.parametrize("clock", [MonotonicClock(), ProcessorClock()], ids=["real", "processor"])
def test_an_engine_that_waits_for_a_time_does_not_spin(clock):
    before = clock.now()
    for _ in range(20):
        clock.idle()
    assert clock.now() - before >= 0.02
