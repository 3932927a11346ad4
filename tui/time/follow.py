"""Keep the second of two recordings at the moment of the first: the same step, or the same second.

Seconds count from the first event of each recording, on its own clock. Of several events at the
same time, the second recording shows as many as the first.
"""

from bisect import bisect_right
from typing import Literal

from minivllm.events.recording.recording import Recording
from minivllm.tui.time.transport import Transport

SameMoment = Literal["step", "second"]
_NEAR = 200
"""Read up to this many events one by one; for more events, a binary search is faster."""


def follow(first: Transport, second: Transport, same: SameMoment) -> None:
    if same == "step":
        position = _place_in_step(first, second.recording)
    else:
        seconds = seconds_at(first)
        position = _position_at(second.recording, seconds, second.position)
        if not first.is_over:
            # The next step can begin in the moment in which a step ends.
            ours = _num_of_moment(first.recording, first.position, seconds)
            position -= max(_num_of_moment(second.recording, position, seconds) - ours, 0)
    if second.position != position:
        second.to_position(position)


def _place_in_step(first: Transport, second: Recording) -> int:
    """After the step; inside it, after as many of its events as in the first recording."""
    step, end = first.view.fold.step, second.step_end(first.view.fold.step)
    if first.position >= first.recording.step_end(step) and first.view.steps.current is None:
        return end
    inside = first.position - first.recording.step_begin(step)
    return min(second.step_begin(step) + inside, end)


def seconds_at(transport: Transport) -> float:
    """Seconds from the first event to the last event before this moment."""
    if not transport.position:
        return 0.0
    recording = transport.recording
    return _time_of(recording, transport.position - 1) - _time_of(recording, 0)


def _position_at(recording: Recording, seconds: float, near: int) -> int:
    """How many events have happened in the first `seconds`. Searches after `near` first."""
    if not len(recording):
        return 0
    start = _time_of(recording, 0)
    if near and _time_of(recording, near - 1) - start <= seconds:
        for index, event in enumerate(recording.events(near, near + _NEAR), near):
            if event.t - start > seconds:
                return index
        if near + _NEAR >= len(recording):
            return len(recording)
    places = range(len(recording))
    return bisect_right(places, seconds, key=lambda at: _time_of(recording, at) - start)


def _num_of_moment(recording: Recording, position: int, seconds: float) -> int:
    """How many of the last events before `position` happened exactly after `seconds`."""
    start = _time_of(recording, 0) if position else 0.0
    first = position
    while first and _time_of(recording, first - 1) - start == seconds:
        first -= 1
    return position - first


def _time_of(recording: Recording, index: int) -> float:
    return next(iter(recording.events(index, index + 1))).t
