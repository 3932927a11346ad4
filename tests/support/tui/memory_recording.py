"""A recording in a plain list, with the methods of `Recording`, and a source around it."""

from collections.abc import Iterator
from types import SimpleNamespace

from minivllm.events import types as ev
from minivllm.events.recording.event_index import NOTABLE_KINDS
from minivllm.tui.context import Context
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.transport import Transport


class MemoryRecording:
    """Wraps any list of events."""

    def __init__(self, header: ev.LogHeader, events: list[ev.Event]) -> None:
        self.header = header
        self.all = events
        self.num_read = 0
        """Number of events handed out, to test that readers are lazy."""
        self._head, self._num_folded = None, 0

    @property
    def head(self) -> DashboardModel:
        """Folded once, and further as the list grows."""
        self._head = self._head or DashboardModel(self.header)
        for event in self.all[self._num_folded :]:
            self._head.apply(event)
        self._num_folded = len(self.all)
        return self._head

    def __len__(self) -> int:
        return len(self.all)

    def view_at_event(self, count: int) -> DashboardModel:
        model = DashboardModel(self.header)
        for event in self.all[:count]:
            model.apply(event)
        return model

    def events(self, start: int, stop: int) -> Iterator[ev.Event]:
        for event in self.all[max(start, 0) : stop]:
            self.num_read += 1
            yield event

    def has_notable(self, kind: type[ev.Event], start: int, stop: int) -> bool:
        return any(type(event) is kind for event in self.all[start:stop])

    def step_of(self, index: int) -> int:
        return self.all[min(index, len(self.all) - 1)].step if self.all else 0

    def step_begin(self, step: int) -> int:
        return sum(event.step < step for event in self.all)

    def step_end(self, step: int) -> int:
        return sum(event.step <= step for event in self.all)

    @property
    def first_step(self) -> int:
        return self.step_of(0)

    @property
    def last_step(self) -> int:
        return self.step_of(len(self.all))


def notable_numbers(events: list[ev.Event]) -> list[int]:
    """Of neighbours of one kind in a step, the first; of a sequence's deferrals, each new reason."""
    found, last = [], {}
    for number, event in enumerate(events):
        if type(event) in NOTABLE_KINDS:
            waits = type(event) is ev.RequestDeferred
            whose, news = (event.seq_id, event.reason) if waits else ("", (event.step, type(event)))
            found += [number] * (last.get(whose) != news)
            last[whose] = news
    return found


def transport_of(stage, position: int | None = None) -> Transport:
    """A paused transport over all events of a `Stage`, by default at the end."""
    source = SimpleNamespace(
        recording=MemoryRecording(stage.header, list(stage.events)), poll=lambda seconds: 0,
        status=SimpleNamespace(state="recording", text=""), close=lambda: None,
    )  # fmt: skip
    transport = Transport(source, "paused")
    transport.to_position(len(stage.events) if position is None else position)
    return transport


def context_of(stage, position: int | None = None, other=None, watch: str = "") -> Context:
    """The context of a panel; `other` is a second stage to compare with."""
    second = None if other is None else transport_of(other)
    return Context(transport_of(stage, position), second=second, watch=watch)
