"""The bottom line: the keys that are useful on this screen, in this panel and now.

The keys are read from the bindings, so they include the user's own keys.
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

from minivllm.tui.widgets.frame.panel import Panel

_ALWAYS = ("app.help", "app.quit")
_HERE = {
    "overview": ("look.word_back", "look.confidence"),
    "blocks": ("look.open", "engine.mass", "engine.xray"),
    "requests": ("look.open", "engine.tokens", "engine.abort"),
    "events": ("look.filter",),
    "lesson": ("lesson.next", "lesson.back"),
    "choice": ("look.word_back", "look.word", "engine.tokens", "look.confidence"),
}
"""Screen name -> commands that only this screen shows."""
_OF_WORDS = ("look.word_back", "look.word", "look.confidence")
"""Only while words are explained."""
_STEERED = ("engine.step", "engine.burst", "engine.option", "engine.abort")
_LAST = (
    "race.start",
    "time.notable",
    "time.goto",
    "look.maximize",
    "look.next_panel",
    "app.palette",
)
_LABELS = {
    "look.down": "Select",
    "look.maximize": "Zoom",
    "look.next_panel": "Panel",
    "engine.add": "Ask",
    "engine.mass": "Attention",
    "engine.xray": "X-ray",
    "engine.tokens": "Why tokens",
}
"""Labels that are shorter than in the palette, or clearer beside the labels next to them."""
_ROOM_FOR_PICTURE = 100
"""Columns for the label "Pause picture" in place of "Pause"."""
_PADDING = 3
"""Cells around a key and its label."""


class WantedKey(NamedTuple):
    command_id: str
    label: str = ""
    """Only if the command's usual label does not say what it does now."""


class Key(NamedTuple):
    binding: Binding
    display: str
    label: str

    @property
    def width(self) -> int:
        return cell_len(self.display) + cell_len(self.label) + _PADDING


def bound_commands(screen: Screen) -> dict[str, Binding]:
    """Command id -> its binding with the first of its keys, also the user's own.

    A binding without an id has its action as the id.
    """
    bound: dict[str, Binding] = {}
    for active in screen.active_bindings.values():
        bound.setdefault(active.binding.id or active.binding.action, active.binding)
    return bound


class KeyBar(Footer):
    """Uses private parts of Textual's footer: `FooterKey` and `_bindings_ready`."""

    def __init__(self) -> None:
        super().__init__()
        self._last: list[WantedKey] = []
        """What `follow` has seen last."""

    def compose(self) -> ComposeResult:
        if not self._bindings_ready:
            return
        self._last = list(self._wanted())
        for key in self._keys():
            shown = FooterKey(
                key.binding.key,
                key.display,
                key.label,
                key.binding.action,
                tooltip=key.binding.tooltip,
            )
            yield shown.data_bind(compact=Footer.compact)

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.recompose)

    def _keys(self) -> list[Key]:
        always, room = list(self._bound(map(WantedKey, _ALWAYS))), self.app.size.width
        room -= sum(key.width for key in always)
        shown = []
        wanted: dict[str, WantedKey] = {}
        for one in self._wanted():
            wanted.setdefault(one.command_id, one)
        for key in self._bound(wanted.values()):
            if key.width <= room:
                shown.append(key)
                room -= key.width
        return [*shown, *always]

    def follow(self) -> None:
        """Show other keys if another mode has begun: a pause, a message, a selection."""
        if not self.is_attached:  # one more frame can be drawn while the screen is being removed
            return
        wanted = list(self._wanted())
        if wanted != self._last:
            self._last = wanted
            self.refresh(recompose=True)

    def _wanted(self) -> Iterator[WantedKey]:
        """The most useful command first."""
        context, screen = self.screen.context, self.screen.NAME
        if self.app.has_sentences:
            yield WantedKey("look.back", "Close")
        if context.start is not None:
            return
        if self.screen.maximized is not None:
            yield WantedKey("look.maximize", "Back to all panels")
        here = _HERE.get(screen, ())
        if screen == "lesson":
            lesson = context.lesson
            here = here[1 if lesson.page.last and lesson.at_newest else 0 :]
            yield from map(WantedKey, here)
        elif context.lesson is not None:
            yield WantedKey("screen('lesson')")
        yield from self._of_race()
        yield from self._of_pauses()
        live = context.transport.state == "live"
        yield WantedKey("time.step_back" if live else "time.step")
        yield WantedKey("look.why")
        yield from self._of_panel()
        if not live:
            yield WantedKey("time.live")
        if context.transport.state == "playing":
            yield from map(WantedKey, ("time.faster", "time.slower"))
        can_race = context.transport.view.fold.counters.generation_tokens and not context.lesson
        others = ["engine.add", *([] if self.screen.focused else ["look.next_panel"]), *here]
        others += [*(["race.start"] if can_race else []), *_STEERED]
        if not context.transport.view.explanations.judged:
            others = [one for one in others if one not in _OF_WORDS]
        yield from map(WantedKey, (one for one in others if context.control or "engine" not in one))
        yield from map(WantedKey, _LAST)

    def _of_race(self) -> Iterator[WantedKey]:
        context = self.screen.context
        if context.race is not None and context.race.state == "running":
            yield WantedKey("race.cancel")
        elif self.screen.NAME == "compare" and context.second is not None:
            yield WantedKey(
                "race.clock", "Same step" if context.same == "second" else "Same second"
            )
            if context.behind is not None:
                yield WantedKey("look.back", "Back")
        elif self.screen.NAME == "compare" or context.finished is not None:
            yield WantedKey("race.start")

    def _of_pauses(self) -> Iterator[WantedKey]:
        """Pausing the picture is one thing, pausing the engine another."""
        context = self.screen.context
        verb = "Play" if context.transport.state == "paused" else "Pause"
        if context.control is None:
            yield WantedKey("time.toggle", verb)
            return
        has_room = self.app.size.width >= _ROOM_FOR_PICTURE
        yield WantedKey("time.toggle", f"{verb} picture" if has_room else verb)
        if context.control.state().paused:
            yield WantedKey("engine.pause", "Resume engine")
            yield WantedKey("engine.step", "One step")
            yield WantedKey("engine.phase", "One phase")
        else:
            yield WantedKey("engine.pause", "Pause engine")

    def _of_panel(self) -> Iterator[WantedKey]:
        context, focused = self.screen.context, self.screen.focused
        if not isinstance(focused, Panel):
            return
        yield WantedKey("look.down")
        if context.selection.last is not None:
            yield WantedKey("look.open")
        for command_id in focused.KEYS:
            if context.control or "engine" not in command_id:
                yield WantedKey(command_id)
        if focused.RULE is not None:
            yield WantedKey("look.source")

    def _bound(self, wanted: Iterable[WantedKey]) -> Iterator[Key]:
        bound = bound_commands(self.screen)
        for command_id, label in wanted:
            if (binding := bound.get(command_id)) is not None:
                label = label or _LABELS.get(command_id, binding.description)
                yield Key(binding, self.app.get_key_display(binding), label)
