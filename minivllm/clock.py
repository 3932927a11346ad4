"""Time as a dependency: the real clock for serving, the processor's for comparisons, a virtual one
for lessons, a told one for simulations.

With a virtual clock a run is a function of its inputs alone, so its recording is the same byte
for byte every time. Nothing else in the package may ask the system what time it is.
"""

import time
from typing import Literal, Protocol


class Clock(Protocol):
    name: Literal["monotonic", "virtual"]

    def now(self) -> float:
        """Seconds; only differences mean anything."""

    def end_step(self) -> None:
        """The engine calls this once at the end of each step."""

    def idle(self) -> None:
        """The engine calls this when a step has nothing to run and only time will help."""


class MonotonicClock:
    """The system's monotonic clock."""

    name: Literal["monotonic", "virtual"] = "monotonic"

    def now(self) -> float:
        return time.monotonic()

    def end_step(self) -> None:
        """Real time passes by itself."""

    def idle(self) -> None:
        # Short, so that a request that arrives meanwhile is soon seen.
        time.sleep(0.001)


class ProcessorClock:
    """How long the thread that asks has run: what else the machine was doing in the meantime is not
    counted.

    On an idle machine it moves as the system's clock does, since the engine's thread takes part in
    all of a step's work.
    """

    name: Literal["monotonic", "virtual"] = "monotonic"

    def __init__(self) -> None:
        self._idle = 0.0

    def now(self) -> float:
        return time.thread_time() + self._idle

    def end_step(self) -> None:
        """Time passes with the work."""

    def idle(self) -> None:
        # A sleeping thread's time stands still, and whoever waits for a moment (`batch_delay`)
        # would wait forever.
        self._idle += 0.001


class VirtualClock:
    """Stands still during a step and moves by `seconds_per_step` at its end."""

    name: Literal["monotonic", "virtual"] = "virtual"

    def __init__(self, seconds_per_step: float = 0.01) -> None:
        self._seconds_per_step = seconds_per_step
        self._steps = 0

    def now(self) -> float:
        # A product and not a running sum: no rounding error builds up.
        return self._steps * self._seconds_per_step

    def end_step(self) -> None:
        self._steps += 1

    def idle(self) -> None:
        """The step's end moves the time."""


class SimulatedClock:
    """Stands still until whoever simulates says what time it is; never goes back."""

    name: Literal["monotonic", "virtual"] = "virtual"

    def __init__(self) -> None:
        self._now = 0.0

    def now(self) -> float:
        return self._now

    def advance_to(self, now: float) -> None:
        self._now = max(self._now, now)

    def end_step(self) -> None:
        """A simulated step ends when its model of time says so: `advance_to`."""

    def idle(self) -> None:
        """The next arrival moves the time."""
