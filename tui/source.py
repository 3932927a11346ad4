"""Where the dashboard's events come from.

A source hands over the events that came in since it was last asked. It knows nothing of screens.
The easy thing to get wrong is to make the engine wait: `put` runs in the engine's thread, between
two decisions of the scheduler, so all it does is append to a deque. No lock, no wake-up, no limit
that could block; the dashboard comes by fifteen times a second and takes what is there.
"""

from collections import deque
from collections.abc import Iterable
from typing import Protocol

from minivllm.events.types import Event, LogHeader


class EventSource(Protocol):
    """What the dashboard needs of a stream of events."""

    header: LogHeader

    def drain(self, limit: int) -> list[Event]:
        """Up to `limit` events that have not been handed over yet, oldest first; never waits."""


class InProcessSource:
    """Events of an engine in this process (`engine.subscribe(source.put)`), or of any list."""

    def __init__(self, header: LogHeader, events: Iterable[Event] = ()) -> None:
        self.header = header
        self._events: deque[Event] = deque(events)
        # Appending to a deque and popping from its other end are each one atomic operation in
        # CPython, so one thread may do the one and another thread the other.
        self.put = self._events.append
        """Take in one event, from any thread."""

    def drain(self, limit: int) -> list[Event]:
        pop = self._events.popleft
        return [pop() for _ in range(min(limit, len(self._events)))]
