"""Clocks: real time, processor time, a virtual clock for lessons, a simulated clock.

The engine takes all times from the clock that it gets as an argument. With a virtual clock, a run
depends only on its inputs, so two recordings of the run are equal, byte for byte.
"""

import time
from typing import Literal


class Clock:
    """What all clocks have. By default, time passes by itself."""

    name: Literal["monotonic", "virtual"] = "monotonic"
    num_steps = 0
    """How many steps have ended; counted by the engine."""

    def now(self) -> float:
        """Return the time in seconds. Only differences have a meaning."""
        raise NotImplementedError

    def idle(self) -> None:
        """Called by the engine when a step has nothing to run and must wait for time to pass."""


class MonotonicClock(Clock):
    now = staticmethod(time.monotonic)

    def idle(self) -> None:
        # The sleep is short, so that the engine soon sees a new request.
        time.sleep(0.001)


class ProcessorClock(Clock):
    """Processor time of the calling thread. Other work on the machine does not count."""

    def __init__(self) -> None:
        self._idle = 0.0

    def now(self) -> float:
        return time.thread_time() + self._idle

    def idle(self) -> None:
        # A sleeping thread uses no processor time, so a `batch_delay` would never end.
        self._idle += 0.001


class VirtualClock(Clock):
    """A clock that stands still during a step and advances by `seconds_per_step` after it."""

    name = "virtual"

    def __init__(self, seconds_per_step: float = 0.01) -> None:
        self._seconds_per_step = seconds_per_step

    def now(self) -> float:
        # Multiply instead of adding step by step, so that rounding errors do not add up.
        return self.num_steps * self._seconds_per_step


class SimulatedClock(Clock):
    """A clock that the simulation sets with `advance_to`. It never goes back."""

    name = "virtual"

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def advance_to(self, now: float) -> None:
        self._now = max(self._now, now)

    def idle(self) -> None:
        self._now += 0.001
