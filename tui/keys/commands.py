"""The table of all dashboard commands: key, function, name and help.

Bindings, help, palette, remapping and a page of the docs are made from `COMMANDS`. Textual has a
single action, `command(id)`, which calls the row's function through `run_command`.

Never change an id: users' `keys.toml` files contain it. Keys are plain characters where possible,
because a terminal cannot send every key (ctrl+i is tab, ctrl+h is backspace).
"""

from collections.abc import Awaitable, Callable
from typing import Any, NamedTuple

from textual.binding import Binding
from textual.keys import key_to_character

from minivllm.tui.time.transport import Transport


class Command(NamedTuple):
    id: str
    keys: str
    """Textual key names, comma-separated; the first one is displayed."""
    run: Callable[[Any], Awaitable[None] | None]
    """Called with the app; in `LESSON_COMMANDS`, with the lesson screen."""
    label: str
    """Name in the palette, and in the bottom line unless `keybar` has a shorter name."""
    help: str
    group: str
    display: str | None = None
    """How to print the key, if Textual's name for it is unsuitable."""


COMMANDS: tuple[Command, ...] = (
    Command("time.toggle", "space", lambda app: app.time_keys.toggle(),
            "Pause", "Pause or play; in the demo, the engine pauses and goes on with the picture.",
            "Time"),
    Command("time.step_back", "left,h", lambda app: app.time_keys.move(Transport.step, -1),
            "Step back", "Go to the end of the previous step.", "Time", "←"),
    Command("time.step", "right,l", lambda app: app.time_keys.step(),
            "Step", "Go to the end of the next step; in the demo, the newest one runs now.",
            "Time", "→"),
    Command("time.event_back", "left_square_bracket", lambda app: app.time_keys.move(Transport.event, -1),
            "Event back", "Go one event back.", "Time", "["),
    Command("time.event", "right_square_bracket", lambda app: app.time_keys.move(Transport.event, 1),
            "Event", "Go one event forward.", "Time", "]"),
    Command("time.notable_back", "left_curly_bracket", lambda app: app.time_keys.move(Transport.notable, -1),
            "Notable back",
            "Go to the previous hit, copy, eviction, wait, preemption, arrival or end.",
            "Time", "{"),
    Command("time.notable", "right_curly_bracket", lambda app: app.time_keys.move(Transport.notable, 1),
            "Notable", "Go to the next hit, copy, eviction, wait, preemption, arrival or end.",
            "Time", "}"),
    Command("time.start", "home", lambda app: app.time_keys.run(Transport.to_start),
            "Start", "Go to the first event.", "Time"),
    Command("time.live", "end", lambda app: app.time_keys.run(Transport.to_live),
            "Live", "Go to the newest event, and follow new ones.", "Time"),
    Command("time.faster", "plus,equals_sign", lambda app: app.time_keys.speed(1),
            "Faster", "Play twice as fast.", "Time", "+"),
    Command("time.slower", "minus", lambda app: app.time_keys.speed(-1),
            "Slower", "Play half as fast.", "Time", "-"),
    Command("time.goto", "g", lambda app: app.look_keys.goto(),
            "Go to", "Go to a step (412), a request (ada) or a block (b9).", "Time"),
    Command("screen.overview", "1", lambda app: app.look_keys.screen("overview"),
            "Overview", "The whole engine at a glance.", "Screens"),
    Command("screen.blocks", "2", lambda app: app.look_keys.screen("blocks"),
            "Blocks", "Blocks, their owners, the prefix cache and the free queue.", "Screens"),
    Command("screen.scheduler", "3", lambda app: app.look_keys.screen("scheduler"),
            "Scheduler", "How each step used its token budget.", "Screens"),
    Command("screen.requests", "4", lambda app: app.look_keys.screen("requests"),
            "Requests", "Every request's timeline and text.", "Screens"),
    Command("screen.events", "5", lambda app: app.look_keys.screen("events"),
            "Events", "All events, one per row.", "Screens"),
    Command("screen.compare", "6", lambda app: app.look_keys.screen("compare"),
            "Compare", "Two recordings of the same trace, side by side.", "Screens"),
    Command("screen.choice", "7", lambda app: app.look_keys.screen("choice"),
            "Choice", "How a sequence gets its next word: the candidates and the draw.",
            "Screens"),
    Command("race.start", "R", lambda app: app.race_keys.ask(),
            "Race", "Run the same requests with two configurations, side by side.", "Race"),
    Command("race.clock", "S", lambda app: app.race_keys.clock(),
            "Same step/second", "Show both sides after the same step, or after the same second.",
            "Race"),
    Command("race.cancel", "C", lambda app: app.race_keys.cancel(),
            "Cancel race", "Stop the runs of a race.", "Race"),
    Command("look.next_panel", "tab", lambda app: app.action_focus_next(),
            "Next panel", "Focus the next panel.", "Look"),
    Command("look.previous_panel", "shift+tab", lambda app: app.action_focus_previous(),
            "Previous panel", "Focus the previous panel.", "Look"),
    Command("look.down", "down,j", lambda app: app.look_keys.cursor(1),
            "Down", "Select the next item in the panel.", "Look", "↓"),
    Command("look.up", "up,k", lambda app: app.look_keys.cursor(-1),
            "Up", "Select the previous item.", "Look", "↑"),
    Command("look.page_down", "pagedown", lambda app: app.look_keys.cursor(12),
            "Page down", "Move twelve items down.", "Look"),
    Command("look.page_up", "pageup", lambda app: app.look_keys.cursor(-12),
            "Page up", "Move twelve items up.", "Look"),
    Command("look.open", "enter", lambda app: app.look_keys.open(),
            "Inspect", "Open the screen with details of the selected item; so does a double click.",
            "Look"),
    Command("look.back", "escape", lambda app: app.look_keys.back(),
            "Back", "Return to the previous screen; if there is none, clear the selection.",
            "Look", "esc"),
    Command("look.why", "w", lambda app: app.look_keys.why(),
            "Why?", "Explain the selected item in one sentence.", "Look"),
    Command("look.source", "s", lambda app: app.look_keys.source(),
            "Source", "Show the engine's code that made this decision.", "Look"),
    Command("look.filter", "slash", lambda app: app.look_keys.filter(),
            "Filter", "Show only events with a word (!word: without it).", "Look", "/"),
    Command("look.word_back", "less_than_sign", lambda app: app.look_keys.word(-1),
            "Word back", "Show how the word before was chosen. Left goes back in time.",
            "Look", "<"),
    Command("look.word", "greater_than_sign", lambda app: app.look_keys.word(1),
            "Word on", "Show how the next word was chosen; right goes on in time.", "Look", ">"),
    Command("look.confidence", "c", lambda app: app.look_keys.confidence(),
            "Confidence", "Colour the words in the slots by the model's probability of them.",
            "Look"),
    Command("look.maximize", "z", lambda app: app.look_keys.maximize(),
            "Maximize", "Enlarge the panel to the whole screen, or restore it.", "Look"),
    Command("engine.pause", "p", lambda app: app.engine_keys.pause(),
            "Engine", "Pause or resume the engine itself.", "Engine"),
    Command("engine.step", "n", lambda app: app.engine_keys.step(),
            "Engine step", "Run one step of the paused engine.", "Engine"),
    Command("engine.phase", "N", lambda app: app.engine_keys.phase(),
            "Engine phase", "Run one phase of a step: schedule, execute or sample.", "Engine"),
    Command("engine.add", "a", lambda app: app.engine_keys.add(),
            "Add request", "Send a message to the model.", "Engine"),
    Command("engine.burst", "A", lambda app: app.engine_keys.burst(),
            "Burst", "Send four requests with the same beginning.", "Engine"),
    Command("engine.abort", "x", lambda app: app.engine_keys.abort(),
            "Abort", "Abort the selected request.", "Engine"),
    Command("engine.option", "o", lambda app: app.engine_keys.option(),
            "Option", "Change the token budget or the number of slots.", "Engine"),
    Command("engine.mass", "M", lambda app: app.engine_keys.mass(),
            "Attention", "Start or stop recording the attention on each block and word.", "Engine"),
    Command("engine.layer", "L", lambda app: app.engine_keys.layer(),
            "Layer", "Record the attention of the next layer; after the last one, of all.",
            "Engine"),
    Command("engine.head", "H", lambda app: app.engine_keys.head(),
            "Head", "Record the attention of the next head; after the last one, of all.",
            "Engine"),
    Command("engine.xray", "X", lambda app: app.engine_keys.xray(),
            "Kernel x-ray", "Trace the attention kernel at the selected sequence's next token.",
            "Engine"),
    Command("engine.tokens", "W", lambda app: app.look_keys.tokens(),
            "Explain tokens", "Open the Choice screen; there, stop or start explaining the tokens.",
            "Engine"),
    Command("app.theme", "t", lambda app: app.toggle_theme(),
            "Dark/light", "Switch between dark and light.", "Dashboard"),
    Command("app.screenshot", "ctrl+s", lambda app: app.look_keys.picture(),
            "Screenshot", "Save the screen as an SVG picture.", "Dashboard"),
    Command("app.export", "E", lambda app: app.look_keys.save(),
            "Export", "Save the recording and a Perfetto trace.", "Dashboard"),
    Command("app.palette", "ctrl+p", lambda app: app.look_keys.palette(),
            "Commands", "Find a command by its name.", "Dashboard"),
    Command("app.help", "question_mark,f1", lambda app: app.look_keys.help(),
            "Help", "Explain the focused panel, and list all keys.", "Dashboard", "?"),
    Command("app.quit", "q", lambda app: app.look_keys.leave(),
            "Quit", "Leave the dashboard; offers to save the requests that you sent.", "Dashboard"),
    Command("app.interrupt", "ctrl+c", lambda app: app.look_keys.leave_at_once(),
            "Quit", "Leave the dashboard at once, even from a window.", "Dashboard"),
)  # fmt: skip

LESSON_COMMANDS: tuple[Command, ...] = (
    Command("lesson.next", "space,enter", lambda screen: screen.next_page(),
            "Go on", "Go to the answer of a question, the next page, or the next lesson.",
            "Lesson", "space"),
    Command("lesson.back", "b", lambda screen: screen.page_back(),
            "Page back", "Go back one page, with its picture.", "Lesson"),
)  # fmt: skip
"""Keys of the lesson screen, where they take precedence over the app's."""


def as_bindings(commands: tuple[Command, ...]) -> list[Binding]:
    return [
        # Textual's own ctrl+c only shows a hint, so override it, even in windows.
        Binding(
            command.keys,
            f"command('{command.id}')",
            command.label,
            show=False,
            key_display=command.display,
            tooltip=command.help,
            id=command.id,
            priority=command.id == "app.interrupt",
        )
        for command in commands
    ]


async def run_command(commands: tuple[Command, ...], command_id: str, owner: Any) -> None:
    if owner.app._exit:  # this key was typed after q
        return
    if command_id != "look.back":  # which closes one thing at a time
        owner.app.forget()
    done = next(command for command in commands if command.id == command_id).run(owner)
    if done is not None:
        await done


def printed_key(key: str) -> str:
    """A Textual key name as on the keyboard: `left_square_bracket` is `[`."""
    character = key_to_character(key)
    return key if character in (None, " ") or not character.isprintable() else character


def key_tables() -> str:
    """All commands as Markdown, a table for each group."""
    parts = []
    commands = (*COMMANDS, *LESSON_COMMANDS)
    for group in dict.fromkeys(command.group for command in commands):
        parts.append(
            f"\n### {group}\n\n| Keys | Command | What it does | Id |\n|---|---|---|---|\n"
        )
        for command in commands:
            if command.group == group:
                first, *others = command.keys.split(",")
                keys = " ".join(
                    f"`{key}`"
                    for key in (command.display or printed_key(first), *map(printed_key, others))
                )
                parts.append(f"| {keys} | {command.label} | {command.help} | `{command.id}` |\n")
    return "".join(parts)
