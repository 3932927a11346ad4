"""The bottom line: the keys that are useful on this screen, most important first.

The keys are read from the bindings, so they include the user's own keys.
"""

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding
from textual.events import Resize
from textual.screen import Screen
from textual.widgets import Footer
from textual.widgets._footer import FooterKey

_ALWAYS = ("app.help", "app.quit")
_FIRST = ("time.toggle", "time.step", "look.why")
_HERE = {
    "blocks": ("look.open", "engine.mass", "engine.xray"),
    "requests": ("look.open", "engine.tokens", "engine.abort"),
    "events": ("look.filter",),
    "lesson": ("lesson.next", "lesson.back"),
}
"""Screen name -> commands that only this screen shows."""
_STEERED = (
    "engine.pause",
    "engine.add",
    "engine.step",
    "engine.burst",
    "engine.option",
    "engine.abort",
)
_LAST = ("time.notable", "time.goto", "look.maximize", "look.next_panel", "app.palette")
_LABELS = {
    "look.maximize": "Zoom",
    "look.next_panel": "Panel",
    "engine.pause": "Pause engine",
    "engine.add": "Ask",
    "engine.mass": "Mass",
    "engine.xray": "X-ray",
    "engine.tokens": "Why tokens",
}
"""Labels that are shorter than in the palette, or clearer beside the labels next to them."""
_PADDING = 3
"""Cells around a key and its label."""


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

    def compose(self) -> ComposeResult:
        if not self._bindings_ready:
            return
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
        always, room = list(self._bound(_ALWAYS)), self.app.size.width
        room -= sum(key.width for key in always)
        shown = []
        for key in self._bound(dict.fromkeys(self._wanted())):
            if key.width <= room:
                shown.append(key)
                room -= key.width
        return [*shown, *always]

    def _wanted(self) -> Iterator[str]:
        context, screen = self.screen.context, self.screen.NAME
        if self.screen.maximized is not None:
            yield "look.maximize"
        if screen == "lesson":
            yield from _HERE[screen]
        elif context.lesson is not None:
            yield "screen('lesson')"
        yield from _FIRST
        yield from (
            "time.live",
            *(one for one in _HERE.get(screen, ()) if context.control or "engine" not in one),
        )
        yield from _STEERED if context.control is not None else ()
        yield from _LAST

    def _bound(self, ids: Iterator[str]) -> Iterator[Key]:
        bound = bound_commands(self.screen)
        for command_id in ids:
            if (binding := bound.get(command_id)) is not None:
                yield Key(
                    binding, self.app.get_key_display(binding), self._label(command_id, binding)
                )

    def _label(self, command_id: str, binding: Binding) -> str:
        if command_id == "look.maximize" and self.screen.maximized is not None:
            return "Back to all panels"
        if (
            command_id == "time.toggle"
            and self.screen.context.control is not None
            and self.app.size.width >= 100
        ):
            return "Pause picture"
        return _LABELS.get(command_id, binding.description)
