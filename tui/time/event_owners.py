"""The owner of a block at the moment of an event that names only the block.

The model on the screen is at another position, so the owner is read from a model at the event's
position, restored from a keyframe. Each call reads a limited number of events; later calls find
the remaining owners.
"""

from typing import Protocol

from minivllm.events import types as ev
from minivllm.tui.state.block_histories import BlockAges
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.event_search import EVENTS_PER_LOOK, Events

_NAME_A_BLOCK = (ev.BlockHashed, ev.BlockFreed, ev.BlockEvicted)
_NEAR = 500
"""Reading up to this many events one by one is cheaper than restoring a keyframe."""
_MOST_KNOWN = 4096


class EventsWithViews(Events, Protocol):
    def view_at_event(self, count: int) -> DashboardModel: ...


class EventOwners:
    def __init__(self) -> None:
        self._known: dict[int, str | None] = {}
        self._ages: BlockAges | None = None
        self._next = 0
        self.has_all = True
        """Whether the last call of `learn` found all owners."""

    def learn(self, recording: EventsWithViews, found: list[tuple[int, ev.Event]]) -> None:
        """Find the owners for these (index, event) pairs. Reads about `EVENTS_PER_LOOK` events."""
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        budget = EVENTS_PER_LOOK
        wanted = [
            entry
            for entry in found
            if isinstance(entry[1], _NAME_A_BLOCK) and entry[0] not in self._known
        ]
        for index, event in wanted:
            if budget <= 0:
                break
            if self._ages is None or not self._next <= index < self._next + _NEAR:
                self._ages, self._next = recording.view_at_event(index).ages, index
                budget -= _NEAR
            for event in recording.events(self._next, index + 1):
                if type(event) in self._ages.APPLY:
                    self._ages.apply(event)
            budget -= index + 1 - self._next
            self._next = index + 1
            self._known[index] = self._ages.last_owner(event.block_id)
        self.has_all = all(index in self._known for index, _ in wanted)

    def owner(self, index: int, event: ev.Event) -> str | None:
        """The event's own sequence, or its block's last owner; None while that is not known."""
        return getattr(event, "seq_id", None) or self._known.get(index)
