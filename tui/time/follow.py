"""Keep the second of two recordings at the moment of the first: the same step, or the same second.

Seconds count from the first event of each recording, on its own clock.
"""

from bisect import bisect_right
from collections.abc import Callable
from itertools import takewhile
from typing import Literal

from minivllm.events.recording.recording import Recording
from minivllm.tui.time.transport import Transport

SameMoment = Literal["step", "second"]
_NEAR = 200
"""Search this many events first, because they are often decoded already."""


def follow(first: Transport, second: Transport, same: SameMoment) -> None:
    place = _place_in_step if same == "step" else _place_in_second
    position = place(first, second)
    if second.position != position:
        second.to_position(position)


def _place_in_step(first: Transport, second: Transport) -> int:
    """After the step; inside it, after as many of its events as in the first recording."""
    step = first.view.fold.step
    begin, end = second.recording.step_begin(step), second.recording.step_end(step)
    if first.position >= first.recording.step_end(step) and first.view.steps.current is None:
        return end
    return min(begin + first.position - first.recording.step_begin(step), end)


def _place_in_second(first: Transport, second: Transport) -> int:
    """After all earlier events, and as many of this moment as in the first recording.

    A step can begin at the very time at which the last one ends.
    """
    seconds, passed = seconds_at(first), _passed(second.recording)
    low, near, high = 0, second.position, len(second.recording)
    if near and passed(near - 1) <= seconds:
        low = near
        if low + _NEAR < high and passed(low + _NEAR) > seconds:
            high = low + _NEAR
    position = bisect_right(range(high), seconds, low, key=passed)
    if first.is_over:
        return position
    ours = _num_at(_passed(first.recording), first.position, seconds)
    return position - max(_num_at(passed, position, seconds) - ours, 0)


def _num_at(passed: Callable[[int], float], position: int, seconds: float) -> int:
    """How many of the last events before `position` happened exactly after these seconds."""
    return len(list(takewhile(lambda at: passed(at) == seconds, range(position - 1, -1, -1))))


def seconds_at(transport: Transport) -> float:
    """Seconds from the first event to the last event before this moment."""
    return _passed(transport.recording)(transport.position - 1) if transport.position else 0.0


def _passed(recording: Recording) -> Callable[[int], float]:
    """Returns the seconds from the first event to event number `index`."""

    def time(index: int) -> float:
        return next(iter(recording.events(index, index + 1))).t

    start = time(0) if len(recording) else 0.0
    return lambda index: time(index) - start
