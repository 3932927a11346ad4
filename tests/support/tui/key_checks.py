"""One check per command of the dashboard: its key does what its help says.

A check begins at a seat (`key_seat`): paused at the end of step `MIDDLE`, on the overview, nothing
selected.
"""

import re
from pathlib import Path

import msgspec
from textual.widgets import Input

from minivllm.events import types as ev
from minivllm.tui.answers.why import why
from minivllm.tui.draw.selection import block, event, sequence, step
from minivllm.tui.draw.theme import DARK, LIGHT
from minivllm.tui.keys.commands import COMMANDS
from minivllm.tui.screens.dialogs import TextScreen
from minivllm.tui.screens.help import HelpScreen
from support.tui import key_checks_of_races, key_checks_of_time  # noqa: F401 (they add checks)
from support.tui.driven_app import SCREENS, all_drawn, drawn, panel, told, until, visible
from support.tui.key_seat import CHECKS, MIDDLE, Check, Seat, of

# ---- screens and looking ----


async def shows_the_screen(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app.current_mode == SCREENS[int(key) - 1]
    assert f"step {MIDDLE}" in all_drawn(seat.app)
    # A folded panel is only its title.
    filled = [one for one in visible(seat.app) if one.content_size.height and one.id != "watch"]
    assert len(filled) >= (2 if SCREENS[int(key) - 1] == "choice" else 4) and all(
        "\n".join(drawn(seat.app, one.id)).strip() for one in filled
    )


CHECKS |= {f"screen.{name}": shows_the_screen for name in SCREENS}


def focuses(by: int) -> Check:
    async def check(seat: Seat, key: str) -> None:
        ids = [one.id for one in visible(seat.app) if one.focusable]
        assert not {"header", "watch", "timeline", "summary"} & set(ids), "nothing to choose there"
        for number in range(1, len(ids) + 1):
            await seat.press(key)
            assert seat.app.focused.id == ids[(ids.index("slots") + by * number) % len(ids)]

    return check


CHECKS["look.next_panel"] = focuses(1)
CHECKS["look.previous_panel"] = focuses(-1)


def moves_the_cursor(by: int) -> Check:
    async def check(seat: Seat, key: str) -> None:
        fold, selection = seat.app.model.fold, seat.app.context.selection
        last = len(fold.blocks) - 1
        seat.app.set_focus(panel(seat.app, "blockmap"))
        expected = 0 if by > 0 else last
        for _ in range(2):
            await seat.press(key)
            assert selection.last == block(expected)
            expected = min(max(expected + by, 0), last)
        seat.app.set_focus(panel(seat.app, "slots"))
        running = sorted(fold.running, key=lambda seq_id: fold.sequences[seq_id].slot)
        chosen = running[0 if by > 0 else -1]
        await seat.press(key)
        assert selection.last == sequence(chosen)
        lines = panel(seat.app, "slots")._lines
        lit = next(line for line in lines if any("!@" in style for _, style in line))
        assert chosen.removesuffix(".0") in "".join(text for text, _ in lit)

    return check


CHECKS["look.down"] = moves_the_cursor(1)
CHECKS["look.up"] = moves_the_cursor(-1)
CHECKS["look.page_down"] = moves_the_cursor(12)
CHECKS["look.page_up"] = moves_the_cursor(-12)


@of("look.open")
async def shows_what_is_chosen_on_its_own_screen(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app.current_mode == "overview", "nothing is chosen"
    for target, screen in (
        (block(3), "blocks"),
        (sequence(seat.running), "requests"),
        (step(MIDDLE - 2), "scheduler"),
        (event(40), "events"),
    ):
        await seat.choose(target)
        await seat.press(key)
        assert seat.app.current_mode == screen
    seat.stands_at(41)


@of("look.back")
async def goes_back_and_then_chooses_nothing(seat: Seat, key: str) -> None:
    await seat.choose(block(3))
    await seat.press("2", "3", "tab", "z")
    assert seat.app.screen.maximized is not None
    for screen in ("scheduler", "blocks", "overview"):
        await seat.press(key)
        assert seat.app.screen.maximized is None and seat.app.current_mode == screen
    assert seat.app.context.selection.last == block(3)
    await seat.press(key)
    assert seat.app.context.selection.last is None


@of("look.why")
async def says_why(seat: Seat, key: str) -> None:
    await seat.press(key)
    said = told(seat.app)
    for target in (sequence(seat.app.model.fold.waiting[0]), block(0), step(MIDDLE)):
        await seat.choose(target)
        await seat.press(key)
        assert told(seat.app) == [why(seat.app.model, seat.app.context.selection)]
        said += told(seat.app)
    # Without a selection, the explanation begins with the request that waits.
    assert said[0] == said[1] and len(set(said)) == 3


@of("look.source")
async def shows_the_line_that_decided(seat: Seat, key: str) -> None:
    kinds = [one.__struct_config__.tag for one in seat.stage.events]
    await seat.stand_at(kinds.index("request.preempted") + 1)
    await seat.press(key)
    assert isinstance(seat.app.screen, TextScreen)
    assert "_preempt" in str(seat.app.screen.query_one("#text").border_title)
    assert "RequestPreempted" in seat.window_text()
    await seat.press("escape")
    seat.app.set_focus(None)
    await seat.stand_at(0)
    await seat.press(key)
    assert "Select an event" in told(seat.app)[-1]


@of("look.filter")
async def shows_only_events_with_a_word(seat: Seat, key: str) -> None:
    def kinds() -> set[str]:
        rows = [row for row in drawn(seat.app, "events")[2:] if row.strip()]
        return {re.search(r"[a-z]+\.[a-z]+", row).group() for row in rows}

    await seat.press(key)
    await seat.answer("preempted")
    assert seat.app.current_mode == "events" and "preempted" in drawn(seat.app, "events")[0]
    assert kinds() == {"request.preempted"}
    await seat.press(key, "escape")
    assert seat.app.context.event_filter == "preempted", "who only looked changes nothing"
    await seat.press(key)
    assert seat.app.screen.query_one(Input).value == "preempted"
    await seat.answer("!block")
    assert kinds() and not any("block" in kind for kind in kinds())
    await seat.press(key)
    await seat.answer("")
    assert seat.app.context.event_filter == ""
    assert any("block" in row for row in drawn(seat.app, "events"))


@of("look.ids")
async def switches_a_blocks_tokens_between_words_and_ids(seat: Seat, key: str) -> None:
    for shown in ("ids", "words"):
        await seat.press(key)
        assert seat.app.context.shows_ids == (shown == "ids")
        assert told(seat.app)[-1] == f"The block inspector shows tokens as {shown}."


async def says_what_to_do_without_explanations(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "explain" in told(seat.app)[-1]
    assert seat.app.context.selection.position is None


for _command in ("look.word_back", "look.word"):
    CHECKS[_command] = says_what_to_do_without_explanations


@of("look.confidence")
async def colours_the_words_by_confidence(seat: Seat, key: str) -> None:
    await says_what_to_do_without_explanations(seat, key)
    assert seat.app.context.shows_confidence
    await seat.press(key)
    assert not seat.app.context.shows_confidence


@of("look.maximize")
async def gives_the_panel_the_whole_screen(seat: Seat, key: str) -> None:
    seat.app.set_focus(panel(seat.app, "blockmap"))
    before = panel(seat.app, "blockmap").size
    await seat.press(key)
    # Textual lays the screen out a moment after the key.
    await until(seat.pilot, lambda: panel(seat.app, "blockmap").size.height > before.height)
    assert panel(seat.app, "blockmap").size.width > 100
    await seat.press(key)
    await until(seat.pilot, lambda: panel(seat.app, "blockmap").size == before)


# ---- the engine in this process ----


def asks_of_the_engine(
    *expected: tuple, prepare: str = "", answer: str | None = None, adds: bool = False
) -> Check:
    """Check that the key makes these calls.

    adds: the call gives the engine work, so the picture goes live and says so.
    """

    async def check(seat: Seat, key: str) -> None:
        running = seat.running
        if prepare == "running":
            await seat.choose(sequence(running))
        await seat.press(key)
        if answer is not None:
            await seat.answer(answer)
        names = {"REQUEST": running.removesuffix(".0"), "SEQUENCE": running}
        calls = [tuple(names.get(part, part) for part in call) for call in expected]
        assert seat.control.calls == calls
        if adds:
            assert seat.transport.state == "live" and f"step {MIDDLE}." in told(seat.app)[-1]

    return check


CHECKS["engine.step"] = asks_of_the_engine(("step",))
CHECKS["engine.phase"] = asks_of_the_engine(("step_phase",))
CHECKS["engine.burst"] = asks_of_the_engine(("add_burst",), adds=True)
CHECKS["engine.xray"] = asks_of_the_engine(("trace_kernel", "SEQUENCE"), prepare="running")
CHECKS["engine.tokens"] = asks_of_the_engine(
    ("explain_tokens", "SEQUENCE", True), prepare="running"
)
CHECKS["engine.abort"] = asks_of_the_engine(("abort", "REQUEST"), prepare="running")
_asks = asks_of_the_engine(
    ("add_request", "Who was Ada? [b]", 64, 0.0, 1), answer=" Who was Ada? [b] ", adds=True
)
_sets = asks_of_the_engine(("set_option", "max_num_seqs", 2), answer="max_num_seqs = 2")


@of("engine.pause")
async def pauses_the_engine_and_lets_it_go_on(seat: Seat, key: str) -> None:
    await seat.press(key, "end")
    await until(seat.pilot, lambda: "ENGINE PAUSED before schedule" in drawn(seat.app, "header")[0])
    await seat.press(key)
    assert seat.control.calls == [("pause",), ("resume",)]
    await until(seat.pilot, lambda: "LIVE" in drawn(seat.app, "header")[0])


@of("engine.add")
async def asks_the_model_something(seat: Seat, key: str) -> None:
    await _asks(seat, key)
    seat.app.clear_notifications()
    await seat.press(key)
    await seat.answer("   ")
    assert len(seat.control.calls) == 1
    # The next field is already selected, so typing replaces its value.
    await seat.press(key, *"Hi", "tab", *"200", "tab", *"0.5", "tab", "3", "enter")
    assert seat.control.calls[-1] == ("add_request", "Hi", 200, 0.5, 3)
    assert told(seat.app) == []  # the picture was live already
    await seat.press(key, *"Hi", "tab", "delete", "enter")
    assert len(seat.control.calls) == 2 and "whole numbers" in seat.window_text()


@of("engine.option")
async def changes_an_option(seat: Seat, key: str) -> None:
    await _sets(seat, key)
    for nonsense in ("max_num_seqs two", "7", "max_num_seqs ²", "max_num_seqs " + "9" * 5000):
        await seat.press(key)
        await seat.answer(nonsense)
        assert "max_num_seqs 2" in told(seat.app)[-1], "an example of what to write"
    assert len(seat.control.calls) == 1


@of("engine.mass")
async def records_attention_and_stops(seat: Seat, key: str) -> None:
    await seat.press(key)
    await seat.press("down")
    await seat.press(key, "down")
    asked = "record_attention_mass"
    chosen = seat.app.context.selection.seq_id
    assert chosen is not None
    # While attention is recorded, its words follow the selection.
    first = sequence_in_slot(seat, 0)
    assert [call for call in seat.control.calls if call[0] == asked] == [
        (asked, True, None, None, None), (asked, True, first, None, None), (asked, False)
    ]  # fmt: skip


def sequence_in_slot(seat: Seat, slot: int) -> str:
    found = seat.app.model.fold.sequences.items()
    return next(seq_id for seq_id, one in found if one.slot == slot)


def goes_round(number: int) -> Check:
    """Check a key that goes from the mean through each layer (3) or head (4) back to the mean.

    number: index of the argument of `record_attention_mass`
    """

    async def check(seat: Seat, key: str) -> None:
        remembered = seat.transport.recording.head.remembered
        await seat.press(key)
        assert seat.control.calls == [] and "M starts it" in told(seat.app)[-1]
        await seat.press("M")
        remembered.attention = ev.TokenAttention(1, 1, 0.0, seat.running, [1.0], None, None, 2, 2)
        await seat.press(key, key, key, "M")
        remembered.attention = None
        recorded = [call[number] for call in seat.control.calls if len(call) > 2]
        assert recorded == [None, 0, 1, None]

    return check


CHECKS["engine.layer"] = goes_round(3)
CHECKS["engine.head"] = goes_round(4)


# ---- the dashboard ----


@of("app.theme")
async def changes_between_dark_and_light(seat: Seat, key: str) -> None:
    text = all_drawn(seat.app)
    for theme in (LIGHT, DARK):
        await seat.press(key)
        assert seat.app.theme == theme.name
        await until(seat.pilot, lambda: all_drawn(seat.app) == text)


@of("app.screenshot")
async def saves_the_screen_as_a_picture(seat: Seat, key: str) -> None:
    await seat.press(key)
    (path,) = Path.cwd().glob("*.svg")
    text = path.read_text(encoding="utf-8")
    assert path.name in told(seat.app)[-1] and f"step&#160;{MIDDLE}" in text


@of("app.export")
async def saves_the_recording_and_a_trace(seat: Seat, key: str) -> None:
    await seat.press(key)
    (log,), (trace,) = Path.cwd().glob("*.jsonl"), Path.cwd().glob("*.perfetto.json")
    assert log.name in told(seat.app)[-1] and trace.name in told(seat.app)[-1]
    assert len(log.read_bytes().splitlines()) == 1 + len(seat.stage.events)
    assert len(msgspec.json.decode(trace.read_bytes())["traceEvents"]) > len(seat.stage.events) // 4


@of("app.next_recording")
async def says_that_there_is_no_next_recording(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert "Only one recording is open" in told(seat.app)[-1]


@of("app.palette")
async def finds_a_command_and_runs_it(seat: Seat, key: str) -> None:
    def num_found() -> int:
        return seat.app.screen.query_one("CommandList").option_count

    await seat.press(key)
    await until(seat.pilot, lambda: num_found() == len(COMMANDS))
    await seat.pilot.press(*"scheduler")
    # The help text of the engine's step command also contains the word.
    await until(seat.pilot, lambda: num_found() == 2)
    await seat.pilot.press("enter")
    await until(seat.pilot, lambda: seat.app.current_mode == "scheduler")


@of("app.help")
async def explains_the_focused_panel_and_all_keys(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert isinstance(seat.app.screen, HelpScreen)
    text = " ".join(seat.window_text().split())
    focused = panel(seat.app, "slots")
    assert text.startswith(f"{focused.HELP_TITLE} {focused.HELP_TEXT}")
    assert all(command.help in text for command in COMMANDS)
    await seat.press(key)
    assert len(seat.app.screen_stack) == 1


@of("app.quit")
async def leaves(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app._exit


@of("app.interrupt")
async def leaves_also_from_a_window(seat: Seat, key: str) -> None:
    await seat.press("g")
    await leaves(seat, key)
