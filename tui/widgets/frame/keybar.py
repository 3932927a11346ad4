"""The bottom line with the keys that are useful now, and the tabs of the screens.

The keys are read from the bindings, so they include the user's own keys.
"""

from rich.cells import cell_len
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.content import Content
from textual.events import Resize
from textual.geometry import Size
from textual.screen import Screen
from textual.widgets import Footer, Tab
from textual.widgets._footer import FooterKey

from minivllm.tui.keys.commands import COMMANDS
from minivllm.tui.widgets.frame.panel import Panel

_ALWAYS = ("app.help", "app.quit")
"""Shown however narrow the line is."""
_FIXED = ("time.toggle", "time.step_back", "time.step", "look.why", *_ALWAYS)
"""At the left on every screen; the keys of the screen and the panel follow them."""
_HERE = {
    "overview": ("look.word_back", "look.confidence"),
    "blocks": ("look.open", "engine.mass", "engine.xray"),
    "requests": ("look.open", "engine.tokens", "engine.abort"),
    "events": ("look.filter",),
    "choice": ("look.word_back", "look.word", "engine.tokens", "look.confidence"),
}
"""Screen name -> commands that only this screen shows."""
_OF_WORDS = ("look.word_back", "look.word", "look.confidence")
"""Only while words are explained."""
_STEERED = ("engine.burst", "engine.option", "engine.abort")
_LAST = ("time.notable", "time.goto", "look.maximize", "look.next_panel", "app.palette")
_LABELS = {
    "time.step_back": "Back",
    "app.palette": "All keys",
    "look.down": "Select",
    "look.maximize": "Zoom",
    "look.next_panel": "Panel",
    "engine.add": "Ask",
    "engine.xray": "X-ray",
    "engine.tokens": "Why tokens",
}
"""Labels that are shorter than in the palette, or clearer beside the labels next to them."""
_PADDING = 3
"""Cells around a key and its label."""


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
        self._last: dict[str, str] = {}
        """What `follow` has seen last."""

    def compose(self) -> ComposeResult:
        if not self._bindings_ready:
            return
        self._last = self.wanted()
        bound, room = bound_commands(self.screen), self.app.size.width
        shown: dict[str, FooterKey] = {}
        for command_id, label in (dict.fromkeys(_ALWAYS, "") | self._last).items():
            if (binding := bound.get(command_id)) is None:
                continue
            words = label or _LABELS.get(command_id, binding.description)
            display = self.app.get_key_display(binding)
            width = cell_len(display) + cell_len(words) + _PADDING
            if width <= room:
                room -= width
                key = FooterKey(
                    binding.key, display, words, binding.action, tooltip=binding.tooltip
                )
                shown[command_id] = key.data_bind(compact=Footer.compact)
        fixed = [shown.pop(command_id) for command_id in _FIXED if command_id in shown]
        yield from (*fixed, *shown.values())

    def on_resize(self, event: Resize) -> None:
        self.call_after_refresh(self.recompose)

    def follow(self) -> None:
        """Show other keys if another mode has begun: a pause, a message, a selection."""
        # One more frame can be drawn while the screen is being removed.
        if self.is_attached and self.wanted() != self._last:
            self._last = self.wanted()
            self.refresh(recompose=True)

    def wanted(self) -> dict[str, str]:
        """Command id -> its label now, empty for the usual one; the most useful command first."""
        context, name, focused = self.screen.context, self.screen.NAME, self.screen.focused
        live, lesson, control = context.transport.state == "live", context.lesson, context.control
        wanted: dict[str, str] = {}

        def add(*command_ids: str, label: str = "") -> None:
            for command_id in command_ids:
                if control is not None or not command_id.startswith("engine."):
                    wanted.setdefault(command_id, label)

        if self.app.has_sentences:
            add("look.back", label="Close")
        if context.start is not None:
            return wanted
        if self.screen.maximized is not None:
            add("look.maximize", label="Back to all panels")
        if name == "lesson":
            ends = lesson.page.last and lesson.at_newest
            if not lesson.page.waits:  # a question takes an answer and enter
                add("lesson.next", label="Next lesson" if ends else "")
            add("lesson.back")
        elif lesson is not None:
            add("screen('lesson')")
        if context.race is not None and context.race.state == "running":
            add("race.cancel")
        elif name == "compare" and context.second is not None:
            add("race.clock", label="Same step" if context.same == "second" else "Same second")
            if context.behind is not None:
                add("look.back", label="Back")
        elif name == "compare" or context.finished is not None:
            add("race.start")
        is_paused = context.transport.state == "paused"
        if control is not None and control.state().paused:
            is_paused |= control.pauses_with_picture and context.behind is None
            if not control.pauses_with_picture:
                add("engine.pause", label="Resume engine")
                add("engine.step", label="One step")
            add("engine.phase", label="One phase")
        add("time.toggle", label="Play" if is_paused else "Pause")
        add(*_FIXED)
        if control is not None and not control.pauses_with_picture:
            add("engine.pause", label="Pause engine")
            add("engine.step")  # otherwise → does it
        if isinstance(focused, Panel):
            add("look.down", *(["look.open"] if context.selection.last is not None else []))
            add(*focused.KEYS, *(["look.source"] if focused.RULE is not None else []))
        add(*([] if live else ["time.live"]))
        add(*(["time.faster", "time.slower"] if context.transport.state == "playing" else []))
        add("engine.add", *([] if focused else ["look.next_panel"]))
        if name == "choice" and self.app.engine_keys.explains_selected:
            add("engine.tokens", label="Stop explaining")
        hidden = () if context.transport.view.explanations.judged else _OF_WORDS
        add(*(command for command in _HERE.get(name, ()) if command not in hidden))
        if lesson is None and context.transport.view.fold.counters.generation_tokens:
            add("race.start")
        add(*_STEERED, *_LAST)
        if context.shows_the_end:
            del wanted["time.toggle"]
        return wanted


ROWS_FOR_TABS = 32
"""On a lower terminal, tabs and top line share a row (`-low` in the style sheet)."""
_ID = "tab-"
"""A tab's id is this and the name of its screen."""
_TAB_PADDING = 2
"""Cells around a label."""
_ROOM_FOR_NAME = 60
"""On a terminal with fewer columns, even the current tab is only a key."""
_ROOM_FOR_HEADER = 100


class ScreenTabs(Horizontal):
    def compose(self) -> ComposeResult:
        for name, label in self._labels(self.app.size).items():
            tab = Tab(label, id=f"{_ID}{name}")
            tab.set_class(name == self.screen.NAME, "-active")
            yield tab

    def fit(self, terminal: Size) -> None:
        labels = self._labels(terminal)
        for tab in self.query(Tab):
            label = labels[tab.id.removeprefix(_ID)]
            if label != tab.label:
                tab.label = label

    def _labels(self, terminal: Size) -> dict[str, Content]:
        """Screen name -> its key, and its name where there is room."""
        named = {
            name: f"{self.app.get_key_display(binding)} {binding.description}"
            for name, binding in self._screens().items()
        }
        room = terminal.width - (0 if terminal.height >= ROWS_FOR_TABS else _ROOM_FOR_HEADER)
        is_whole = sum(cell_len(label) + _TAB_PADDING for label in named.values()) <= room
        has_name = terminal.width >= _ROOM_FOR_NAME

        def shown(name: str, label: str) -> Content:
            is_named = is_whole or (has_name and name == self.screen.NAME)
            return Content(label if is_named else label.rpartition(" ")[0])

        return {name: shown(name, label) for name, label in named.items()}

    def _screens(self) -> dict[str, Binding]:
        """Screen name -> its binding, in the order of the commands; a lesson's screen is first."""
        bound = bound_commands(self.screen)
        ids = {"lesson": "screen('lesson')"} if "screen('lesson')" in bound else {}
        ids |= {
            key.id.removeprefix("screen."): key.id for key in COMMANDS if key.group == "Screens"
        }
        return {name: bound[command_id] for name, command_id in ids.items()}

    async def on_tab_clicked(self, event: Tab.Clicked) -> None:
        event.stop()
        await self.app.action_screen(event.tab.id.removeprefix(_ID))
