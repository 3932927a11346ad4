"""Checks of the keys that open a screen, choose something and look at it: each does what its help
says.
"""

import re

from textual.widgets import Input

from minivllm.tui.answers.why import why
from minivllm.tui.draw.selection import block, event, sequence, step
from minivllm.tui.screens.dialogs import TextScreen
from support.tui.driven_app import SCREENS, all_drawn, drawn, panel, told, visible
from support.tui.key_seat import MIDDLE, Checks, Seat

LOOK = Checks()


async def shows_the_screen(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app.current_mode == SCREENS[int(key) - 1]
    assert f"step {MIDDLE}" in all_drawn(seat.app)
    shown = visible(seat.app)
    # a folded one is only its title
    filled = [one for one in shown if one.content_size.height and one.id != "watch"]
    assert len(filled) >= 4 and all("\n".join(drawn(seat.app, one.id)).strip() for one in filled)


for _name in SCREENS:
    LOOK[f"screen.{_name}"] = shows_the_screen


# ---- looking ----


@LOOK.of("look.next_panel")
async def gives_the_next_panel_the_focus(seat: Seat, key: str) -> None:
    ids = [one.id for one in visible(seat.app) if one.focusable]
    assert not {"header", "watch", "timeline", "summary"} & set(ids), (
        "there is nothing to choose in them"
    )
    seat.app.set_focus(None)
    seen = []
    for _ in range(len(ids) + 1):
        await seat.pilot.press(key)
        seen.append(seat.app.focused.id)
    assert seen == [*ids[ids.index("slots") :], *ids[: ids.index("slots") + 1]]


@LOOK.of("look.previous_panel")
async def gives_the_panel_before_the_focus(seat: Seat, key: str) -> None:
    ids = [one.id for one in visible(seat.app) if one.focusable]
    await seat.press(key)
    assert seat.app.focused.id == ids[ids.index("slots") - 1]


async def _moves_the_cursor(seat: Seat, key: str, by: int) -> None:
    seat.app.set_focus(panel(seat.app, "blockmap"))
    last = len(seat.app.model.fold.blocks) - 1
    expected = 0 if by > 0 else last
    for _ in range(2):
        await seat.press(key)
        assert seat.app.context.selection.last == block(expected)
        expected = min(max(expected + by, 0), last)
    seat.app.set_focus(panel(seat.app, "slots"))
    running = sorted(
        seat.app.model.fold.running, key=lambda seq_id: seat.app.model.fold.sequences[seq_id].slot
    )
    await seat.press(key)
    assert seat.app.context.selection.last == sequence(running[0 if by > 0 else -1])
    row = next(
        row for row in panel(seat.app, "slots")._lines if any("!@" in style for _, style in row)
    )
    assert running[0 if by > 0 else -1].removesuffix(".0") in "".join(text for text, _ in row)


@LOOK.of("look.down")
async def chooses_the_next_thing(seat: Seat, key: str) -> None:
    await _moves_the_cursor(seat, key, 1)


@LOOK.of("look.up")
async def chooses_the_thing_before(seat: Seat, key: str) -> None:
    await _moves_the_cursor(seat, key, -1)


@LOOK.of("look.page_down")
async def chooses_twelve_things_further(seat: Seat, key: str) -> None:
    await _moves_the_cursor(seat, key, 12)


@LOOK.of("look.page_up")
async def chooses_twelve_things_back(seat: Seat, key: str) -> None:
    await _moves_the_cursor(seat, key, -12)


@LOOK.of("look.open")
async def shows_what_is_chosen_on_its_own_screen(seat: Seat, key: str) -> None:
    await seat.press(key)
    assert seat.app.current_mode == "overview", "nothing is chosen"
    running = seat.app.model.fold.running[0]
    for target, screen in (
        (block(3), "blocks"),
        (sequence(running), "requests"),
        (step(MIDDLE - 2), "scheduler"),
        (event(40), "events"),
    ):
        await seat.choose(target)
        await seat.press(key)
        assert seat.app.current_mode == screen
    seat.stands_at(41)


@LOOK.of("look.back")
async def goes_back_and_then_chooses_nothing(seat: Seat, key: str) -> None:
    await seat.choose(block(3))
    await seat.press("2", "3", "tab", "z")
    assert seat.app.screen.maximized is not None
    await seat.press(key)
    assert seat.app.screen.maximized is None and seat.app.current_mode == "scheduler"
    await seat.press(key)
    assert seat.app.current_mode == "blocks"
    await seat.press(key)
    assert seat.app.current_mode == "overview" and seat.app.context.selection.last == block(3)
    await seat.press(key)
    assert seat.app.context.selection.last is None


@LOOK.of("look.why")
async def says_why(seat: Seat, key: str) -> None:
    await seat.press(key)
    said = told(seat.app)
    for target in (sequence(seat.app.model.fold.waiting[0]), block(0), step(MIDDLE)):
        await seat.choose(target)
        await seat.press(key)
        assert told(seat.app) == [why(seat.app.model, seat.app.context.selection)]
        said += told(seat.app)
    # Of the moment itself the most interesting fact is who waits.
    assert said[0] == said[1] and len(set(said)) == 3
    assert all(sentence.endswith(".") and "\n" not in sentence for sentence in said)


@LOOK.of("look.source")
async def shows_the_line_that_decided(seat: Seat, key: str) -> None:
    number = next(
        n
        for n, one in enumerate(seat.stage.events)
        if one.__struct_config__.tag == "request.preempted"
    )
    await seat.stand_at(number + 1)
    await seat.press(key)
    assert isinstance(seat.app.screen, TextScreen)
    assert "_preempt" in str(seat.app.screen.query_one("#text").border_title)
    assert "RequestPreempted" in seat.window_text()
    await seat.press("escape")
    seat.app.set_focus(None)
    await seat.stand_at(0)
    await seat.press(key)
    assert "Choose an event" in told(seat.app)[-1]


@LOOK.of("look.filter")
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
    assert seat.app.context.event_filter == "" and any(
        "block" in row for row in drawn(seat.app, "events")
    )
    await seat.press("1", key, "escape")
    assert seat.app.current_mode == "overview"


@LOOK.of("look.maximize")
async def gives_the_panel_the_whole_screen(seat: Seat, key: str) -> None:
    seat.app.set_focus(panel(seat.app, "blockmap"))
    before = panel(seat.app, "blockmap").size
    await seat.press(key)
    large = panel(seat.app, "blockmap")
    assert large.size.width > 100 and large.size.height > before.height
    assert "".join(drawn(seat.app, "blockmap")).count("█") > 10
    await seat.press(key)
    assert panel(seat.app, "blockmap").size == before
