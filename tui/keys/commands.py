"""Every command of the dashboard in one table: key, name, help, and what it does.

Bindings, help, palette, remapping and the page of the documentation are all made from `COMMANDS`, so none of
them can say something else. An action is a method `action_...` of the app. Ids never change: a person's own keys
(`keys.toml`) are written down with them.

The easy thing to get wrong is a key that a terminal cannot send or keeps for itself (ctrl+i is tab, ctrl+h is
backspace); keys here are plain characters wherever possible.
"""

from typing import NamedTuple

from textual.binding import Binding
from textual.keys import key_to_character


class Command(NamedTuple):
    """One thing that a person can ask of the dashboard."""

    id: str
    keys: str
    """Textual's names, separated by commas; the first one is shown."""
    action: str
    label: str
    """For the palette and, where `keybar` has no shorter one, the bottom line."""
    help: str
    """One sentence."""
    group: str
    display: str | None = None
    """How the key is written, where Textual's name for it is not what stands on the keyboard."""


COMMANDS: tuple[Command, ...] = (
    Command("time.toggle", "space", "toggle", "Pause", "Pause or play; the engine and the recording go on.", "Time"),
    Command("time.step_back", "left,h", "step(-1)", "Step back", "To the end of the step before.", "Time", "←"),
    Command("time.step", "right,l", "step(1)", "Step", "To the end of the next step.", "Time", "→"),
    Command("time.event_back", "left_square_bracket", "event(-1)", "Event back", "One event back.", "Time", "["),
    Command("time.event", "right_square_bracket", "event(1)", "Event", "One event forward.", "Time", "]"),
    Command("time.notable_back", "left_curly_bracket", "notable(-1)", "Notable back",
            "To the last hit, copy, eviction, wait, preemption, arrival or end before here.", "Time", "{"),
    Command("time.notable", "right_curly_bracket", "notable(1)", "Notable",
            "To the next hit, copy, eviction, wait, preemption, arrival or end.", "Time", "}"),
    Command("time.start", "home", "start", "Start", "To the first event.", "Time"),
    Command("time.live", "end", "live", "Live", "To the newest event, and follow it.", "Time"),
    Command("time.faster", "plus,equals_sign", "speed(1)", "Faster", "Play twice as fast.", "Time", "+"),
    Command("time.slower", "minus", "speed(-1)", "Slower", "Play half as fast.", "Time", "-"),
    Command("time.goto", "g", "goto", "Go to", "To a step (412), a request (ada) or a block (b9).", "Time"),
    Command("time.mark", "m", "mark", "Mark", "Remember this moment.", "Time"),
    Command("time.previous_mark", "apostrophe", "previous_mark", "To mark", "Back to the last mark before here.", "Time", "'"),
    Command("time.diff", "D", "diff", "Diff", "What changed between the last two marks, or the last mark and here.", "Time"),
    Command("screen.overview", "1", "screen('overview')", "Overview", "Everything at a glance.", "Screens"),
    Command("screen.blocks", "2", "screen('blocks')", "Blocks", "Blocks, their owners, the prefix cache and the free queue.", "Screens"),
    Command("screen.scheduler", "3", "screen('scheduler')", "Scheduler", "How each step's token budget was spent.", "Screens"),
    Command("screen.requests", "4", "screen('requests')", "Requests", "Every request's life and text.", "Screens"),
    Command("screen.events", "5", "screen('events')", "Events", "The event stream itself.", "Screens"),
    Command("screen.compare", "6", "screen('compare')", "Compare", "A second recording of the same trace beside this one.", "Screens"),
    Command("look.next_panel", "tab", "focus_next", "Next panel", "Give the next panel the focus.", "Look"),
    Command("look.previous_panel", "shift+tab", "focus_previous", "Previous panel", "Give the panel before the focus.", "Look"),
    Command("look.down", "down,j", "cursor(1)", "Down", "Choose the next thing in the panel.", "Look", "↓"),
    Command("look.up", "up,k", "cursor(-1)", "Up", "Choose the thing before.", "Look", "↑"),
    Command("look.page_down", "pagedown", "cursor(12)", "Page down", "Twelve things further.", "Look"),
    Command("look.page_up", "pageup", "cursor(-12)", "Page up", "Twelve things back.", "Look"),
    Command("look.open", "enter", "open", "Inspect", "Show what is chosen on the screen that is made for it.", "Look"),
    Command("look.back", "escape", "back", "Back", "Back to the screen before; with nothing to go back to, choose nothing.", "Look", "esc"),
    Command("look.why", "w", "why", "Why?", "Say in one sentence why the chosen thing is as it is.", "Look"),
    Command("look.source", "s", "source", "Source", "The line of the engine that decided this.", "Look"),
    Command("look.filter", "slash", "filter", "Filter", "Show only events that contain a word (!word: that do not).", "Look", "/"),
    Command("look.maximize", "z", "maximize", "Maximize", "Give the panel the whole screen, or take it back.", "Look"),
    Command("engine.pause", "p", "engine_pause", "Engine", "Pause the engine itself, or let it go on.", "Engine"),
    Command("engine.step", "n", "engine_step", "Engine step", "Let the paused engine take one step.", "Engine"),
    Command("engine.phase", "N", "engine_phase", "Engine phase", "One phase of a step: schedule, execute or sample.", "Engine"),
    Command("engine.add", "a", "engine_add", "Add request", "Ask the model something.", "Engine"),
    Command("engine.burst", "A", "engine_burst", "Burst", "Four requests that begin alike.", "Engine"),
    Command("engine.abort", "x", "engine_abort", "Abort", "End the chosen request.", "Engine"),
    Command("engine.option", "o", "engine_option", "Option", "Change the token budget or the number of slots.", "Engine"),
    Command("engine.mass", "M", "engine_mass", "Attention mass", "Record how much attention falls on each block, or stop.", "Engine"),
    Command("engine.xray", "X", "engine_xray", "Kernel x-ray", "Record the kernel's programs at the chosen sequence's next token.", "Engine"),
    Command("app.theme", "t", "toggle_theme", "Dark/light", "Change between dark and light.", "Dashboard"),
    Command("app.screenshot", "ctrl+s", "save_screenshot", "Screenshot", "Save the screen as an SVG picture.", "Dashboard"),
    Command("app.export", "E", "export", "Export", "Save the recording, and a trace for Perfetto.", "Dashboard"),
    Command("app.next_recording", "ctrl+n", "next_recording", "Next recording", "Open the next of the recordings that were named.", "Dashboard"),
    Command("app.palette", "ctrl+p", "command_palette", "Commands", "Find a command by its name.", "Dashboard"),
    Command("app.help", "question_mark,f1", "help", "Help", "What the focused panel shows, and all keys.", "Dashboard", "?"),
    Command("app.quit", "q", "quit", "Quit", "Leave the dashboard.", "Dashboard"),
    Command("app.interrupt", "ctrl+c", "quit", "Quit", "Leave the dashboard, also from a window.", "Dashboard"),
)  # fmt: skip

LESSON_COMMANDS: tuple[Command, ...] = (
    Command("lesson.next", "space,enter", "lesson_next", "Go on", "To the next page of the lesson, or to what comes of the guess.", "Lesson", "space"),
    Command("lesson.back", "b", "lesson_back", "Page back", "To the page before, with the picture as it was.", "Lesson"),
)  # fmt: skip
"""On the lesson screen, and there before the others: `space` and `enter` do something else elsewhere."""


def bindings() -> list[Binding]:
    """The table as Textual wants it."""
    return as_bindings(COMMANDS)


def as_bindings(commands: tuple[Command, ...]) -> list[Binding]:
    return [
        # Textual's own ctrl+c only says which key quits; ours comes first, in every window.
        Binding(
            command.keys, command.action, command.label, show=False, key_display=command.display,
            tooltip=command.help, id=command.id, priority=command.id == "app.interrupt",
        )
        for command in commands
    ]  # fmt: skip


def key_label(command: Command) -> str:
    """The key as a person would write it."""
    return command.display or command.keys.split(",")[0]


def readable(key: str) -> str:
    """One of Textual's names of keys as it stands on the keyboard."""
    character = key_to_character(key)
    return character if character is not None and character.isprintable() and character != " " else key


def page() -> str:
    """The page of the documentation that lists every command."""
    parts = [_PAGE_TOP]
    commands = (*COMMANDS, *LESSON_COMMANDS)
    for group in dict.fromkeys(command.group for command in commands):
        parts.append(f"\n## {group}\n\n| Keys | Command | What it does | Id |\n|---|---|---|---|\n")
        for command in commands:
            if command.group == group:
                first, *others = command.keys.split(",")
                keys = " ".join(f"`{key}`" for key in (command.display or readable(first), *map(readable, others)))
                parts.append(f"| {keys} | {command.label} | {command.help} | `{command.id}` |\n")
    return "".join(parts)


_PAGE_TOP = """\
# Keys of the dashboard

This page is made from the code, the dashboard's own table of commands: `make docs-pages` writes it again.
Inside the dashboard `?` shows the same list, and `ctrl+p` finds a command by its name.

## Keys of your own

Write the id of a command and its keys into `~/.config/minivllm/keys.toml` (or `$XDG_CONFIG_HOME/minivllm/keys.toml`, or
any file with `--keys FILE`). They take the place of the usual ones; several are separated by commas.

```toml
"time.step" = "ctrl+right"
"time.step_back" = "ctrl+left,b"
"look.why" = "?"
"app.help" = "f1"
```

A key is a character (`x`, `?`), a name (`space`, `enter`, `pagedown`, `f5`) or either after `ctrl+`, `alt+` or `shift+`.
No two commands can have one key, except that on the screen of a lesson (`0`) the keys of the group Lesson come first. Not every terminal sends every key; plain characters always come through.
"""
