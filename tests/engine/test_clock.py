"""The clocks: what passes on each of them, and what does not."""

import time

from minivllm.clock import ProcessorClock


def test_on_the_processors_clock_a_thread_that_sleeps_does_not_age():
    clock = ProcessorClock()
    before = clock.now()
    time.sleep(0.2)
    assert clock.now() - before < 0.1


def test_on_the_processors_clock_work_takes_time():
    clock = ProcessorClock()
    before = clock.now()
    sum(range(200_000))
    assert clock.now() > before


def test_on_the_processors_clock_waiting_comes_to_an_end():
    clock = ProcessorClock()
    before = clock.now()
    for _ in range(50):
        clock.idle()
    assert clock.now() - before >= 0.05
