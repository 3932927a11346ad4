"""The event stream, one event per row, around the current position.

Rows are read from the recording, not from the model. Selecting an event goes to the moment just
after it, so that the other panels show the event's effect. A filtered search reads a limited number
of events per frame (`event_search`) and requests the next frame itself, because nothing else on the
screen changes meanwhile.
"""

from typing import NamedTuple

from minivllm.events import types as ev
from minivllm.events.recording.recording import Recording
from minivllm.text import clean
from minivllm.tui.draw.lines import Line, Row
from minivllm.tui.draw.selection import event as event_target
from minivllm.tui.state.decisions import sentence_of, style_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.state.pace import Pace
from minivllm.tui.time.event_search import EventFilter, EventSearch
from minivllm.tui.widgets.frame.panel import Panel

_TIME, _KIND = 9, 19
"""Widths of these columns."""


class EventList(Panel):
    HELP_TITLE = "Events"
    HELP_TEXT = (
        "Every event of the engine, one per row: number, step, seconds since the"
        " beginning, letter of the sequence, kind and description. ▶ marks the current"
        " event; faint events have not happened yet. ↑, ↓, the wheel and a click go to the moment"
        " of an event, and / shows only the events with a word."
    )
    KEYS = ("look.source", "look.filter", "time.event")

    _search: EventSearch | None = None

    def title(self, model: DashboardModel, width: int) -> str:
        return "Events, filtered" if self.context and self.context.event_filter else "Events"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        if self.context is None:
            return []
        transport = self.context.transport
        wanted = EventFilter.parse(self.context.event_filter)
        columns = _Columns.of(transport.recording, width)
        head = [columns.heading()] if height > 3 else []
        has_note = wanted is not None and height > 1
        found = self._found(wanted, height - len(head) - has_note)
        if has_note:
            text, total = self.context.event_filter, len(transport.recording)
            head.insert(0, _search_note(text, self._search, total, width))
        if wanted is not None and not self._search.done:
            self.show_soon()
        now = transport.position - 1
        rows = (columns.row(model, event, here=at == now, to_come=at > now) for at, event in found)
        return [*head, *rows]

    def move_cursor(self, by: int) -> bool:
        """Go to the event that is `by` rows below the current event."""
        height = max(self.content_size.height, 2 * abs(by) + 2)
        found = self._found(EventFilter.parse(self.context.event_filter), height)
        position = self.context.transport.position
        before = [(index, event) for index, event in found if index < position]
        if before and before[-1][0] == position - 1:
            del before[-1]  # the event at the cursor itself
        after = [(index, event) for index, event in found if index >= position]
        rows = after[by - 1 : by] or after[-1:] if by > 0 else before[by:][:1]
        if rows:
            self.post_message(self.Chosen(event_target(rows[0][1].seq), opened=False))
        return bool(found)

    def _found(self, wanted: EventFilter | None, room: int) -> list[tuple[int, ev.Event]]:
        """The events for `room` rows around the current moment."""
        transport, room = self.context.transport, max(room, 0)
        position = at = transport.position
        total = len(transport.recording)
        if wanted is not None:
            if self._search is None or self._search.wanted != wanted:
                self._search = EventSearch(wanted)
            self._search.look(transport.recording, position, max(room, 1))
            at, total = self._search.num_before(position), len(self._search.found)
        after = min(total - at, max(room // 2, room - at))
        start = max(at + after - room, 0)
        if wanted is not None:
            indexes = self._search.found[start : start + room]
            return [(index, self._search.events[index]) for index in indexes]
        return list(enumerate(transport.recording.events(start, start + room), start))


# ---- rows ----


class _Columns(NamedTuple):
    """The widths of the columns: no wider than the longest number, so that descriptions fit."""

    width: int
    seq: int
    step: int
    is_timed: bool

    @classmethod
    def of(cls, recording: Recording, width: int) -> "_Columns":
        seq, step = (max(len(str(number)), 5) for number in (len(recording), recording.last_step))
        return cls(width, seq, step, Pace.of(recording.header).is_timed)

    @property
    def has_numbers(self) -> bool:
        return self.width >= 60

    @property
    def has_time(self) -> bool:
        return self.is_timed and self.width >= 90

    def heading(self) -> Line:
        row = Row(self.width).put("  ")
        if self.has_numbers:
            row.put(f"{'event':>{self.seq}} {'step':>{self.step}} ", "faint")
        if self.has_time:
            row.put(f"{'seconds':>{_TIME}} ", "faint")
        row.put("   ").put(f"{'kind':<{_KIND}} ", "faint")
        return row.put("description", "faint").line()

    def row(self, model: DashboardModel, event: ev.Event, *, here: bool, to_come: bool) -> Line:
        target = event_target(event.seq)
        number = "faint" if to_come else "muted"
        row = Row(self.width).put("▶ " if here else "  ", "accent*", target=target)
        if self.has_numbers:
            numbers = f"{event.seq:>{self.seq}} {event.step:>{self.step}} "
            row.put(numbers, number, target=target)
        if self.has_time:
            row.put(f"{event.t - model.header.mono:>{_TIME}.3f} ", number, target=target)
        letter = model.letter(getattr(event, "seq_id", None))
        kind = f"{event.__struct_config__.tag:<{_KIND}} "
        styles = f"{model.hue(letter)}*", "accent*" if here else "muted", style_of(event)
        hue, strong, style = ("faint",) * 3 if to_come else styles
        row.put(f" {letter or ' '} ", hue, target=target).put(kind, strong, target=target)
        return row.put(sentence_of(event), style, row.room, target=target).line()


def _search_note(text: str, search: EventSearch, total: int, width: int) -> Line:
    word = f" {clean(text)} "
    row = Row(width).put(word, "accent*!", min(len(word), max(width // 3, 1)))
    row.put(f"  {len(search.found):,} found", "text*")
    looked = f"{search.stop - search.start:,} of {total:,} events searched"
    row.put(f" in {looked}", "muted")
    return row.put("" if search.done else ", still searching …", "warn").line()
