"""Clocks: real time, processor time, a virtual clock for lessons, a simulated clock.

The engine takes all times from the clock that it gets as an argument. With a virtual clock, a run
depends only on its inputs, so two recordings of the run are equal, byte for byte.
"""

import time
from typing import Literal, Protocol


class Clock(Protocol):
    name: Literal["monotonic", "virtual"]

    def now(self) -> float:
        """Return the time in seconds. Only differences have a meaning."""

    def end_step(self) -> None:
        """Called by the engine at the end of each step."""

    def idle(self) -> None:
        """Called by the engine when a step has nothing to run and must wait for time to pass."""


class MonotonicClock:
    name: Literal["monotonic", "virtual"] = "monotonic"

    def now(self) -> float:
        return time.monotonic()

    def end_step(self) -> None:
        """Do nothing: real time passes by itself."""

    def idle(self) -> None:
        # The sleep is short, so that the engine soon sees a new request.
        time.sleep(0.001)


class ProcessorClock:
    """Processor time of the calling thread. Other work on the machine does not count."""

    name: Literal["monotonic", "virtual"] = "monotonic"

    def __init__(self) -> None:
        self._idle = 0.0

    def now(self) -> float:
        return time.thread_time() + self._idle

    def end_step(self) -> None:
        """Do nothing: the work itself takes processor time."""

    def idle(self) -> None:
        # A sleeping thread uses no processor time, so a `batch_delay` would never end.
        self._idle += 0.001


class VirtualClock:
    """A clock that stands still during a step and advances by `seconds_per_step` after it."""

    name: Literal["monotonic", "virtual"] = "virtual"

    def __init__(self, seconds_per_step: float = 0.01) -> None:
        self._seconds_per_step = seconds_per_step
        self._steps = 0

    def now(self) -> float:
        # Multiply instead of adding step by step, so that rounding errors do not add up.
        return self._steps * self._seconds_per_step

    def end_step(self) -> None:
        self._steps += 1

    def idle(self) -> None:
        """Do nothing: `end_step` advances the time."""


class SimulatedClock:
    """A clock that the simulation sets with `advance_to`. It never goes back."""

    name: Literal["monotonic", "virtual"] = "virtual"

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def advance_to(self, now: float) -> None:
        self._now = max(self._now, now)

    def end_step(self) -> None:
        """Do nothing: the simulation calls `advance_to` when a step ends."""

    def idle(self) -> None:
        """Do nothing: the next arrival advances the time."""
