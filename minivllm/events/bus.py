"""`EventBus`: adds the envelope to events and passes them to listeners.

Code writes `if bus.active: bus.emit(Kind, field, ...)`, so that without a listener, an event costs
one attribute test.

Listeners run in the engine's thread, in the order of subscription, so they must be quick. If a
listener raises, the engine stops, because a view that misses an event is wrong.
"""

from collections.abc import Callable

from minivllm.clock import Clock
from minivllm.events.types import Event

Listener = Callable[[Event], None]


class EventBus:
    """The event stream of one engine."""

    __slots__ = ("_listeners", "active", "next_seq", "now", "step")

    def __init__(self, clock: Clock) -> None:
        self.now = clock.now
        """Returns the current time on the engine's clock, in seconds."""
        self._listeners: tuple[Listener, ...] = ()
        self.next_seq = 0
        """Number of the next event."""
        self.active = False
        """Check this before computing an event's fields."""
        self.step = 0
        """Number of the current or last step, set by the scheduler."""

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every later event. Call the returned function to stop."""
        self._listeners = (*self._listeners, listener)
        self.active = True

        def unsubscribe() -> None:
            # Compare with `!=`, not `is not`: each `obj.method` is a new object, equal to others.
            self._listeners = tuple(other for other in self._listeners if other != listener)
            self.active = bool(self._listeners)

        return unsubscribe

    def emit(self, kind: type[Event], *fields: object) -> float:
        """Create an event with its own `fields`, in declaration order; return its time `t`."""
        event = kind(self.next_seq, self.step, self.now(), *fields)
        self.next_seq += 1
        for listener in self._listeners:
            listener(event)
        return event.t
