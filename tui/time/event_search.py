"""Find events in a recording: by number, or by a word, outward from a position.

A recording can have ten million events, and a frame takes only a few milliseconds. So each call
searches a limited number of events, and later frames continue. A small move of the position keeps
what was found. Otherwise a live view would restart the search in every frame.
"""

from bisect import bisect_left
from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.text import short_name
from minivllm.tui.context import Context

EVENTS_PER_LOOK = 2000
"""About this many events are compared per call; a call may exceed it by up to two chunks."""
_CHUNK = 1000
"""A recording decodes a few hundred events at a time, so much smaller chunks would repeat work."""
_NEAR = 4 * EVENTS_PER_LOOK
"""If the position is more than this many events outside the searched range, search anew."""
_MOST_FOUND = 4096


class EventFilter(NamedTuple):
    """Accepts events with a word in their kind, sequences or blocks; inverse: every other event."""

    word: str
    inverse: bool = False

    @classmethod
    def parse(cls, text: str) -> "EventFilter | None":
        """Parse `word` or `!word`; None if the text is empty, so that all events are accepted."""
        word = text.strip().casefold()
        inverse = word.startswith("!")
        word = word.removeprefix("!").strip()
        return cls(word, inverse) if word else None

    def accepts(self, event: ev.Event) -> bool:
        return self._names(event) != self.inverse

    def _names(self, event: ev.Event) -> bool:
        kind, word = type(event), self.word
        if word in kind.__struct_config__.tag:
            return True
        # In other kinds, `parent` is the hash of a block.
        names = _SEQUENCES + ("parent",) * (kind is ev.RequestForked)
        for whose in filter(None, (getattr(event, name, None) for name in names)):
            if word in whose.casefold() or ("~" in word and word in short_name(whose)):
                return True
        number = word.removeprefix("b")
        blocks = (getattr(event, name, None) for name in _BLOCKS) if number.isdecimal() else ()
        return number in map(str, blocks)


_SEQUENCES, _BLOCKS = ("seq_id", "request_id", "victim_of"), ("block_id", "src", "dst")
"""The fields that name sequences, and those that name blocks."""


class EventSearch:
    """The accepted events around a position: `found` has the indexes of those in [start, stop)."""

    def __init__(self, wanted: EventFilter) -> None:
        self.wanted = wanted
        self.start = self.stop = 0
        self.found: list[int] = []
        self.events: dict[int, ev.Event] = {}
        """Index -> event, for the found events: reading them again would be slow."""
        self.done = False
        """Whether enough events are found, or the whole recording is searched."""

    def look(
        self, recording: Recording, position: int, enough: int, budget: int = EVENTS_PER_LOOK
    ) -> None:
        """Search on, for one budget, until there are `enough` events on each side of `position`.

        budget: about how many events to read
        """
        if not self.start - _NEAR <= position <= self.stop + _NEAR or len(self.found) > _MOST_FOUND:
            self.start = self.stop = position
            self.found, self.events = [], {}
        while True:
            before = self.num_before(position)
            back = self.start > 0 and (self.start > position or before < enough)
            has_after = len(self.found) - before >= enough
            on = self.stop < len(recording) and (self.stop < position or not has_after)
            self.done = not back and not on
            if self.done or budget <= 0:
                return
            # Search both sides in turn, so that the list on the screen fills from its middle.
            if back:
                budget -= self._look_back(recording)
            if on:
                budget -= self._look_on(recording)

    def num_before(self, position: int) -> int:
        return bisect_left(self.found, position)

    def _look_back(self, recording: Recording) -> int:
        first = max(self.start - _CHUNK, 0)
        self.found[:0] = self._wanted_in(recording, first, self.start)
        looked, self.start = self.start - first, first
        return looked

    def _look_on(self, recording: Recording) -> int:
        after = min(self.stop + _CHUNK, len(recording))
        self.found += self._wanted_in(recording, self.stop, after)
        looked, self.stop = after - self.stop, after
        return looked

    def _wanted_in(self, recording: Recording, start: int, stop: int) -> list[int]:
        events = enumerate(recording.events(start, stop), start)
        new = {index: event for index, event in events if self.wanted.accepts(event)}
        self.events |= new
        return list(new)


def index_of(recording: Recording, seq: int) -> int | None:
    """The index of event number `seq`; None if the event is missing (a gap, or an unknown kind).

    A recording can begin in the middle of a run, and lines of unknown kinds are skipped, so the
    number is not the index.
    """
    index = seq - recording.header.first_seq
    event = next(recording.events(index, index + 1), None) if index >= 0 else None
    if event is not None and event.seq == seq:
        return index  # the usual case: no line was skipped
    index = bisect_left(
        range(len(recording)), seq, key=lambda at: next(recording.events(at, at + 1)).seq
    )
    event = next(recording.events(index, index + 1), None)
    return index if event is not None and event.seq == seq else None


def event_in_question(context: Context) -> ev.Event | None:
    """The selected event if it was selected last, else the newest event at the current moment."""
    transport, last = context.transport, context.selection.last
    if last is not None and last.kind == "event":
        index = index_of(transport.recording, last.key)
        if index is not None:
            return next(transport.recording.events(index, index + 1))
    return transport.event_here()
