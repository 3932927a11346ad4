"""The bottom line with the keys that are useful now, and the tabs of the screens.

The keys are read from the bindings (`DashboardScreen.bound`), so they include the user's own keys.
"""

from textual.geometry import Size

from minivllm.tui.draw.lines import Line, Span, line, text_of, width_of
from minivllm.tui.keys.commands import COMMANDS
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_FIXED = ("time.toggle", "time.step_back", "time.step", "look.why", "app.help", "app.quit")
"""At the left on every screen, however narrow; keys of the screen and the panel follow them."""
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


class KeyBar(Panel, can_focus=False):
    HELP_TITLE = "Keys"
    HELP_TEXT = "The most useful keys of this moment. A click on one presses it."

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        wanted, bound = self.wanted() | dict.fromkeys(_FIXED[-2:], ""), self.screen.bound
        keys: dict[str, Line] = {}
        for command_id in (*_FIXED, *wanted):
            if command_id in wanted and command_id in bound:
                key = bound[command_id]
                words = wanted[command_id] or _LABELS.get(command_id, key.description)
                press = f"app.simulate_key('{key.key}')"
                head = (f" {key.key_display} ", "accent*", press)
                keys[command_id] = head, (f"{words} ", "text", press)
        needed = {*_FIXED, next(iter(wanted))} & keys.keys()
        for name in (name for name in _FIXED if name in needed):
            if sum(width_of(text_of(keys[other])) for other in needed) > width:
                keys[name] = keys[name][0], ("", "text")  # no words, rather than no key
        spans: list[Span] = []
        for key in keys.values():
            if (cells := width_of(text_of(key))) <= width:
                width -= cells
                spans += key
        return [tuple(spans)]

    def _without_effect(self) -> set[str]:
        """Ids of commands that would do nothing now."""
        context, control = self.screen.context, self.screen.context.engine
        hidden = set() if context.transport.view.explanations.judged else {*_OF_WORDS}
        if not context.own.recording.head.fold.requests:
            hidden |= {"engine.abort", "engine.tokens", "engine.xray"}
            if context.finished or (control is not None and not control.pauses_with_picture):
                hidden |= {"engine.phase", "engine.step"}
        if context.shows_the_end:
            hidden |= {"time.step", "time.live"}
            if not context.engine_stands:
                hidden.add("time.toggle")
        return hidden

    def wanted(self) -> dict[str, str]:
        """Command id -> its label now, empty for the usual one; the most useful command first."""
        context, name, focused = self.screen.context, self.screen.NAME, self.screen.focused
        transport, lesson, control = context.transport, context.lesson, context.engine
        hidden, wanted = self._without_effect(), {}

        def add(*command_ids: str, label: str = "") -> None:
            for command_id in command_ids:
                if command_id not in hidden and (control or not command_id.startswith("engine.")):
                    wanted.setdefault(command_id, label)

        pauses_alone = control is not None and not control.pauses_with_picture
        if pauses_alone and control.state().paused:
            add("engine.pause", label="Resume engine")
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
        is_paused = transport.state == "paused"
        if control is not None and control.state().paused:
            is_paused |= control.pauses_with_picture and transport.state != "playing"
            if pauses_alone:
                add("engine.step", label="One step")
            add("engine.phase", label="One phase")
        play = "Replay" if transport.is_over else "Play" if is_paused else "Pause"
        add("time.toggle", label=play)
        add(*_FIXED[1:])
        if pauses_alone:
            add("engine.pause", label="Pause engine")
            add("engine.step")  # otherwise → does it
        if isinstance(focused, Panel):
            add("look.down", *(["look.open"] if context.selection.last is not None else []))
            add(*focused.KEYS, *(["look.source"] if focused.RULE is not None else []))
        add(*([] if transport.state == "live" or transport.is_over else ["time.live"]))
        add(*(["time.faster", "time.slower"] if transport.state == "playing" else []))
        add("engine.add", *([] if focused else ["look.next_panel"]))
        if name == "choice" and self.app.engine_keys.explains_selected:
            add("engine.tokens", label="Stop explaining")
        add(*_HERE.get(name, ()))
        if lesson is None and transport.view.fold.counters.generation_tokens:
            add("race.start")
        add(*_STEERED, *_LAST)
        return wanted


ROWS_FOR_TABS = 32
"""On a lower terminal, tabs and top line share a row (`-low` in the style sheet)."""
_ROOM_FOR_NAME = 60
"""On a terminal with fewer columns, even the current tab is only a key."""
_ROOM_FOR_HEADER = 100
_SCREENS = {"lesson": "screen('lesson')"} | {
    row.id.removeprefix("screen."): row.id for row in COMMANDS if row.group == "Screens"
}
"""Name of a screen -> the command that opens it."""


class ScreenTabs(Panel, can_focus=False):
    HELP_TITLE = "Screens"
    HELP_TEXT = "The keys of the screens. A click on one opens its screen."

    def get_content_width(self, container: Size, viewport: Size) -> int:
        return sum(width_of(text) for text, *_ in self._tabs())

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        return [line(width, *self._tabs())]

    def _tabs(self) -> list[Span]:
        """Each screen's key, and its name where there is room; a lesson's screen is first."""
        bound, terminal, here = self.screen.bound, self.app.size, self.screen.NAME
        keys = {name: bound[id] for name, id in _SCREENS.items() if id in bound}
        whole = {name: f"{key.key_display} {key.description}" for name, key in keys.items()}
        room = terminal.width - (0 if terminal.height >= ROWS_FOR_TABS else _ROOM_FOR_HEADER)
        is_whole = sum(width_of(f" {words} ") for words in whole.values()) <= room
        named = {*whole} if is_whole else {here} if terminal.width >= _ROOM_FOR_NAME else ()
        spans: list[Span] = []
        for name, key in keys.items():
            words = whole[name] if name in named else key.key_display
            look, click = "accent*!" if name == here else "tab", f"app.screen('{name}')"
            spans += [(" ", "tab", click), (words, look, click), (" ", "tab", click)]
        return spans
