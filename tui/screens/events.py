"""The Events screen: the event stream, and one event in full.

The selected event is always the newest one of the current moment. Selecting an event, here or on
another screen, goes to its moment; moving in time clears the selection. The screen follows a
selection only once: following it in every frame would freeze the picture at that event.
"""

from collections.abc import Iterable

from textual.containers import Horizontal
from textual.widget import Widget

from minivllm.tui.draw.selection import Target, event, sequence, step
from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.time.event_search import event_in_question, index_of
from minivllm.tui.widgets.events.event_detail import EventDetail
from minivllm.tui.widgets.events.event_list import EventList


class EventsScreen(DashboardScreen):
    NAME = "events"
    IS_NARRATED = False
    AUTO_FOCUS = "#events"

    def body(self) -> Iterable[Widget]:
        self._followed: Target | None = None
        with Horizontal(id="events-body"):
            yield EventList(id="events")
            yield EventDetail(id="event-detail")

    def row(self) -> Target | None:
        """The event in the panel beside the list; one that is no decision: its sequence or step."""
        here = event_in_question(self.context)
        if here is None:
            return None
        if any(here.seq == decision.seq for decision in self.context.transport.view.log.decisions):
            return event(here.seq)
        seq_id = getattr(here, "seq_id", None)
        return step(here.step) if seq_id is None else sequence(seq_id)

    def draw(self) -> None:
        self._follow_choice()
        super().draw()

    def _follow_choice(self) -> None:
        selection, transport = self.context.selection, self.context.transport
        chosen = selection.last
        if chosen is None or chosen.kind != "event":
            self._followed = None
            return
        index = index_of(transport.recording, chosen.key)
        if chosen != self._followed and index is not None:
            self._followed = chosen
            transport.to_position(index + 1)
        elif index is None or transport.position != index + 1:
            selection.event_seq = selection.last = self._followed = None
