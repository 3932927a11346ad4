"""`EventIndex`: maps events to file positions, and steps and notable moments to events.

The index uses flat arrays, so that ten million events take a few dozen megabytes: one mark for
every few hundred events, one entry for each step, and one for each run of equal notable events.
Only the names of requests are objects, in a dict, because a search through all arrivals would take
seconds.

Of neighbouring events of a step with the same kind, only the first is notable: a user who steps
through them stops once at a prompt that hits thirty blocks, not thirty times. Nor is it news that
a request is deferred again for the same reason, as it is in each step.
"""

from array import array
from bisect import bisect_left, bisect_right
from typing import NamedTuple

from minivllm.events import types as ev

MARK_BYTES = 1 << 15
"""The least number of bytes of the recording between two marks. A seek decodes at most about this
many bytes too many, in a tenth of a millisecond."""

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
    """Add marks, steps and notable events in order."""

    def __init__(self) -> None:
        self._mark_counts = array("Q")
        self._mark_offsets = array("Q")
        self._steps = array("Q")
        self._step_begins = array("Q")
        self._notable = array("Q")
        self._notable_by_kind: dict[type[ev.Event], array[int]] = {}
        self._last_notable: dict[str, tuple[int, type[ev.Event]] | ev.DeferReason] = {}
        self._arrivals: dict[str, int] = {}

    # ---- marks ----

    def add_mark(self, count: int, offset: int) -> None:
        if not self._mark_offsets or offset - self._mark_offsets[-1] >= MARK_BYTES:
            self._mark_counts.append(count)
            self._mark_offsets.append(offset)

    def last_mark(self, count: int) -> OffsetMark:
        """Return the last mark before event number `count`. Event 0 always has a mark before it."""
        return self._mark(bisect_right(self._mark_counts, count) - 1)

    def first_mark(self, count: int) -> OffsetMark | None:
        """Return the first mark after at least `count` events; None if there is no such mark."""
        index = bisect_left(self._mark_counts, count)
        return self._mark(index) if index < len(self._mark_counts) else None

    def _mark(self, index: int) -> OffsetMark:
        return OffsetMark(self._mark_counts[index], self._mark_offsets[index])

    # ---- steps ----

    def begin_step(self, step: int, index: int) -> None:
        self._steps.append(step)
        self._step_begins.append(index)

    @property
    def first_step(self) -> int:
        return self._steps[0] if self._steps else 0

    @property
    def last_step(self) -> int:
        return self._steps[-1] if self._steps else 0

    def step_of(self, index: int) -> int:
        return self._steps[bisect_right(self._step_begins, index) - 1]

    def step_begin(self, step: int) -> int | None:
        """Return the first event of `step`, or of the next recorded step, or None."""
        position = bisect_left(self._steps, step)
        return self._step_begins[position] if position < len(self._steps) else None

    # ---- notable events ----

    def add_notable(self, event: ev.Event, index: int) -> None:
        waits = isinstance(event, ev.RequestDeferred)
        whose, what = (event.seq_id, event.reason) if waits else ("", (event.step, type(event)))
        if self._last_notable.get(whose) != what:
            self._last_notable[whose] = what
            self._notable.append(index)
            self._notable_by_kind.setdefault(type(event), array("Q")).append(index)
        if isinstance(event, ev.RequestArrived):
            self._arrivals.setdefault(event.request_id, index)

    def arrival(self, request_id: str) -> int | None:
        """Return the number of the first arrival event of `request_id`; None if there is none."""
        return self._arrivals.get(request_id)

    def next_notable(self, index: int) -> int | None:
        """Return the number of the first notable event at or after event `index`."""
        position = bisect_left(self._notable, index)
        return self._notable[position] if position < len(self._notable) else None

    def previous_notable(self, index: int) -> int | None:
        """Return the number of the last notable event before event `index`."""
        position = bisect_left(self._notable, index)
        return self._notable[position - 1] if position else None

    def has_notable(self, kind: type[ev.Event], start: int, stop: int) -> bool:
        """Whether a notable event of this kind has a number from `start` to `stop - 1`."""
        indexes = self._notable_by_kind.get(kind, ())
        return bisect_left(indexes, start) < bisect_left(indexes, stop)
