"""`EventIndex`: where things are in a recording: events in the file, steps and notable moments
among the events.

Flat arrays and no object for each event, so ten million events take a few dozen megabytes: one mark
for every few hundred events, one entry for each step, one for each run of equal notable events.
Only a request has an object, its name: to look through all arrivals for one would take seconds.

The easy thing to get wrong is a prompt that hits thirty blocks: for somebody who steps from one
notable event to the next that is one stop and not thirty, so of neighbours of one kind in one step
the first counts.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from minivllm.events import types as ev

MARK_BYTES = 1 << 15
"""Of the recording, at least, between two marks: what a seek decodes too much at most, a tenth of a
millisecond.
"""

NOTABLE_KINDS: frozenset[type[ev.Event]] = frozenset(
    {
        ev.RequestArrived,
        ev.RequestDeferred,
        ev.RequestPreempted,
        ev.RequestResumed,
        ev.RequestForked,
        ev.RequestFinished,
        ev.RequestAborted,
        ev.BeamPruned,
        ev.BlockHit,
        ev.BlockCopied,
        ev.BlockEvicted,
        ev.OptionChanged,
        ev.InvariantViolated,
        ev.Gap,
    }
)


class OffsetMark(NamedTuple):
    """The first `count` events end before byte `offset`."""

    count: int
    offset: int


class EventIndex:
    """Grows with the recording: tell it of marks, of the first event of each step, and of notable
    events, in order.
    """

    def __init__(self) -> None:
        self._mark_counts = array("Q")
        self._mark_offsets = array("Q")
        self._steps = array("Q")
        self._step_begins = array("Q")
        self._notable = array("Q")
        self._last_notable: tuple[int, type[ev.Event]] | None = None
        self._arrivals: dict[str, int] = {}

    # ---- marks ----

    def add_mark(self, count: int, offset: int) -> None:
        if not self._mark_offsets or offset - self._mark_offsets[-1] >= MARK_BYTES:
            self._mark_counts.append(count)
            self._mark_offsets.append(offset)

    def last_mark(self, count: int) -> OffsetMark:
        """The last mark before event number `count`; there is always one, before the first
        event.
        """
        return self._mark(bisect_right(self._mark_counts, count) - 1)

    def first_mark(self, count: int) -> OffsetMark | None:
        """The first mark after the first `count` events; None if the end of what is indexed comes
        first.
        """
        index = bisect_left(self._mark_counts, count)
        return self._mark(index) if index < len(self._mark_counts) else None

    def _mark(self, index: int) -> OffsetMark:
        return OffsetMark(self._mark_counts[index], self._mark_offsets[index])

    # ---- steps ----

    def begin_step(self, step: int, index: int) -> None:
        """Event number `index` is the first of `step`."""
        self._steps.append(step)
        self._step_begins.append(index)

    @property
    def first_step(self) -> int:
        return self._steps[0] if self._steps else 0

    @property
    def last_step(self) -> int:
        return self._steps[-1] if self._steps else 0

    def step_of(self, index: int) -> int:
        """The step of event number `index`."""
        return self._steps[bisect_right(self._step_begins, index) - 1]

    def step_begin(self, step: int) -> int | None:
        """The first event of `step`, or of the next one that exists; None after the last."""
        position = bisect_left(self._steps, step)
        return self._step_begins[position] if position < len(self._steps) else None

    # ---- notable events ----

    def add_notable(self, event: ev.Event, index: int) -> None:
        """Event number `index` is of a notable kind."""
        place = event.step, type(event)
        if place != self._last_notable:
            self._last_notable = place
            self._notable.append(index)
        if isinstance(event, ev.RequestArrived):
            self._arrivals.setdefault(event.request_id, index)

    def arrival(self, request_id: str) -> int | None:
        """The event with which the first request of this name arrived; None if there is none."""
        return self._arrivals.get(request_id)

    def next_notable(self, index: int) -> int | None:
        """The first notable event at or after `index`."""
        position = bisect_left(self._notable, index)
        return self._notable[position] if position < len(self._notable) else None

    def previous_notable(self, index: int) -> int | None:
        """The last notable event before `index`."""
        position = bisect_left(self._notable, index)
        return self._notable[position - 1] if position else None
