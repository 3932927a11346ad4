"""`EventBus`: stamps events with the envelope and hands them to whoever listens.

The engine's parts hold the bus and write `if bus.active: bus.emit(Kind, field, ...)`: with nobody
listening, an event costs one attribute test and its fields are never even computed. Listeners run
in the engine's thread, in the order in which they subscribed, so they must be quick (append to a
deque, write to a file); one that raises stops the engine, because a view that has lost an event is
no longer true.
"""

from collections.abc import Callable

from minivllm.clock import Clock
from minivllm.events.types import Event

Listener = Callable[[Event], None]


class EventBus:
    """One engine's event stream."""

    __slots__ = ("_clock", "_listeners", "active", "next_seq", "step")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._listeners: tuple[Listener, ...] = ()
        self.next_seq = 0
        """Number of the next event."""
        self.active = False
        """True while anybody listens. Read it before computing an event's fields."""
        self.step = 0
        """Number of the step in progress, or of the last one; the engine moves it."""

    def now(self) -> float:
        """The time that an event would get, in seconds on the engine's clock."""
        return self._clock.now()

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on; the returned function ends that."""
        self._listeners = (*self._listeners, listener)
        self.active = True

        def unsubscribe() -> None:
            # Equality and not identity: each `obj.method` is a new object, equal to the last.
            self._listeners = tuple(other for other in self._listeners if other != listener)
            self.active = bool(self._listeners)

        return unsubscribe

    def emit(self, kind: type[Event], *fields: object) -> float:
        """Make a `kind` from the envelope and its own `fields`, in the order of their declaration;
        when it was told.
        """
        event = kind(self.next_seq, self.step, self._clock.now(), *fields)
        self.next_seq += 1
        for listener in self._listeners:
            listener(event)
        return event.t
