"""Whose a block was at the moment of an event that names the block alone.

Who held a block is known by the events before, so it is read off a model at that place. The easy
thing to get wrong is to ask the picture's model: it stands somewhere else in time, and the block
may be another one's there. Going back to each place takes a keyframe; so only a bounded number of
events is read a call, and the next frames learn the rest.
"""

from typing import Protocol

from minivllm.events import types as ev
from minivllm.tui.state.block_histories import BlockAges
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.event_search import EVENTS_PER_LOOK, Events

_NAME_A_BLOCK = (ev.BlockHashed, ev.BlockFreed, ev.BlockEvicted)
_NEAR = 500
"""Up to so many events forward are read one by one; further away a keyframe is nearer, and costs
about as much.
"""
_MOST_KNOWN = 4096


class EventsWithViews(Events, Protocol):
    """What is asked of a recording here."""

    def view_at_event(self, count: int) -> DashboardModel: ...


class EventOwners:
    """Remembers the owners that it was asked for; of one recording."""

    def __init__(self) -> None:
        self._known: dict[int, str | None] = {}
        self._ages: BlockAges | None = None
        self._next = 0
        """The first event that `_ages` has not seen."""
        self.has_all = True
        """Whether all that were asked for last are known."""

    def learn(self, recording: EventsWithViews, found: list[tuple[int, ev.Event]]) -> None:
        """Find the owners of these events, given with their indexes in order; as many as
        `EVENTS_PER_LOOK` allow.
        """
        if len(self._known) > _MOST_KNOWN:
            self._known.clear()
        budget = EVENTS_PER_LOOK
        wanted = [
            one for one in found if isinstance(one[1], _NAME_A_BLOCK) and one[0] not in self._known
        ]
        for index, event in wanted:
            if budget <= 0:
                break
            if self._ages is None or not self._next <= index < self._next + _NEAR:
                self._ages, self._next = recording.view_at_event(index).ages, index
                budget -= _NEAR
            for one in recording.events(self._next, index + 1):
                if type(one) in self._ages.APPLY:
                    self._ages.apply(one)
            budget -= index + 1 - self._next
            self._next = index + 1
            self._known[index] = self._ages.last_owner(event.block_id)
        self.has_all = all(index in self._known for index, _ in wanted)

    def owner(self, index: int, event: ev.Event) -> str | None:
        """Of whom event number `index` tells: its own sequence, or who held its block last, as far
        as that is learnt.
        """
        return getattr(event, "seq_id", None) or self._known.get(index)
