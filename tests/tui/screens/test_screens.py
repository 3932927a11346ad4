"""Every screen in the real app: complete at every size, and safe against foreign text."""

import html
import re

import pytest
from support.tui.driven_app import (
    CONTROL_CHARACTERS,
    SCREENS,
    SIZES,
    all_drawn,
    app_for,
    click,
    drawn,
    drive,
    panel,
    settle,
    show_screen,
    source_of,
    told,
    until,
)
from support.tui.places import check_that_everything_has_its_place
from support.tui.shown import missing_from
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.tui.draw.selection import block, event, sequence, step
from minivllm.tui.widgets.blocks.blockmap import lay_out


def SLOW(value: object):
    """One of several similar cases, for the slow tests."""
    return pytest.param(value, marks=pytest.mark.slow)


WATCH = "The first blocks are computed once and shared."


@pytest.mark.parametrize(
    "scenario", ["memory_pressure", SLOW("beams"), SLOW("shared_prefix"), SLOW("samples")]
)
def test_every_panel_of_every_screen_has_its_place_at_every_size(
    scenario: str, request: pytest.FixtureRequest
) -> None:
    stage = request.getfixturevalue(scenario).run()
    app = app_for(stage, watch=WATCH, other=source_of(stage))

    async def script(pilot: Pilot) -> None:
        for size in SIZES:
            await pilot.resize_terminal(*size)
            await settle(pilot)
            for name in SCREENS:
                await show_screen(pilot, name)
                for position in (0, len(stage.events) // 2, len(stage.events)):
                    app.context.transport.to_position(position)
                    app.draw()
                    await settle(pilot)  # a panel can appear or disappear with the moment
                    check_that_everything_has_its_place(app, size)
                    step = f"step {app.model.fold.step}"
                    await until(pilot, lambda step=step: step in drawn(app, "header")[0])

    drive(app, script, SIZES[0])


@pytest.mark.parametrize("size", [(20, 5), SLOW((40, 12)), SLOW((300, 90))])
def test_odd_sizes_are_harmless_and_leave_no_trace(size: tuple[int, int], memory_pressure) -> None:
    app = app_for(memory_pressure.run(40), watch=WATCH)

    async def script(pilot: Pilot) -> None:
        for name in SCREENS:
            await show_screen(pilot, name)
            if size == (20, 5):
                assert not any(one.region.area for one in app.dashboard_screen.panels())
            else:
                check_that_everything_has_its_place(app, size)
        await pilot.press(
            "tab", "down", "z", "z", "left", "question_mark", "escape", "g", "escape", "space"
        )
        if size == (20, 5):
            said = str(app.screen.query_one("#too-small").render())
            assert missing_from(said, 40, 12, 20, 5) == [], "what it needs and what it has"
        await pilot.resize_terminal(97, 30)
        await settle(pilot)
        await show_screen(pilot, "overview")
        check_that_everything_has_its_place(app, (97, 30))
        assert "r0" in all_drawn(app)

    drive(app, script, size)


HOSTILE = (
    "\x1b[31m\x1b]0;owned\x07[bold red]x[/bold red] [@click=app.quit]y[/] \u202egnp.exe\u2066\x9b2J"
    " {0} %s \\[ 漢字 שלום e\u0301 🏳️\u200d🌈 $accent <text>&amp; \r\n\t"
)


def test_no_screen_executes_terminal_codes_from_outside(stage, ask) -> None:
    answer = f"{HOSTILE}\n" * 9
    asks = [
        ask(f"{HOSTILE}{i}", HOSTILE * (1 + i), answer, arrives=3 * i, samples=1 + i % 2)
        for i in range(7)
    ]
    run = stage(asks, model=HOSTILE, num_blocks=90).run(60)
    last = run.events[-1]
    mass = ev.AttentionMass(last.seq + 1, last.step, last.t, run.engine.inspect().running[0], [0.5])
    problem = ev.KernelTraced(last.seq + 2, last.step, last.t, mass.seq_id, 1, 9, [], HOSTILE)
    run.events += [mass, problem]
    app = app_for(run, watch=HOSTILE, other=source_of(run))

    def check() -> None:
        for drawing in (app.export_screenshot(), all_drawn(app)):
            assert not set(drawing) & CONTROL_CHARACTERS

    async def script(pilot: Pilot) -> None:
        app.context.selection.choose(sequence(mass.seq_id))
        for name in SCREENS:
            await show_screen(pilot, name)
            check_that_everything_has_its_place(app, SIZES[0])
            check()
            assert "[bold red]x" in all_drawn(app) or name in ("scheduler", "blocks"), name
        for keys in ("w", "m left D", "question_mark", "s", "ctrl+p"):
            await pilot.press(*keys.split())
            await settle(pilot)
            check()
            await pilot.press("escape")
        for key in ("g", "slash"):
            await pilot.press(key)
            app.screen.query_one("Input").value = HOSTILE
            await pilot.press("enter")
            await settle(pilot)
            check()
        await show_screen(pilot, "overview")
        app.show_summary([HOSTILE])
        await pilot.press("end")
        await until(pilot, lambda: "[bold red]x" in "".join(drawn(app, "summary")))
        check()
        assert app.is_running and not app._exit

    drive(app, script, SIZES[0])


def test_a_click_selects_and_a_double_click_opens(memory_pressure, no_footer) -> None:
    stage = memory_pressure.run(40)
    app = app_for(stage)
    chosen = app.context.selection

    async def at_block(pilot: Pilot, number: int, times: int) -> None:
        shown = panel(app, "blockmap")
        x, y = lay_out(24, shown.content_size.width, shown.content_size.height - 1).origin(number)
        at = shown.content_region.offset - shown.region.offset
        await pilot.click("#blockmap", offset=(at.x + x, at.y + y), times=times)
        await settle(pilot)

    async def script(pilot: Pilot) -> None:
        await at_block(pilot, 13, 1)
        assert (chosen.last, app.current_mode) == (block(13), "overview")
        await at_block(pilot, 14, 2)
        assert (chosen.last, app.current_mode) == (block(14), "blocks")
        await show_screen(pilot, "overview")
        running = app.model.fold.running[1]
        await click(pilot, "slots", f" {running.removesuffix('.0')} ")
        assert (chosen.last, app.current_mode) == (sequence(running), "overview")
        waiting = app.model.fold.waiting[0]
        await click(pilot, "waiting", waiting.removesuffix(".0"), times=2)
        assert (chosen.last, app.current_mode) == (sequence(waiting), "requests")
        await show_screen(pilot, "scheduler")
        app.draw()
        await settle(pilot)
        row = next(row for row in drawn(app, "step-history")[3:] if re.match(r"\s*\d+ ", row))
        await click(pilot, "step-history", row.strip())
        assert (chosen.last, app.current_mode) == (step(int(row.split()[0])), "scheduler")
        await show_screen(pilot, "events")
        row = drawn(app, "events")[8].strip()
        number = re.search(r"\d+", row).group()
        await click(pilot, "events", row)
        assert (
            chosen.last == event(int(number)) and app.context.transport.position == int(number) + 1
        )
        await show_screen(pilot, "overview")
        await click(pilot, "timeline", "step")  # an empty place
        assert app.current_mode == "overview"
        await click(pilot, "eventlog", "takes", times=2)
        assert app.current_mode == "events" and chosen.last.kind == "event"

    drive(app, script)


@pytest.mark.slow
def test_in_ascii_every_window_is_drawn_in_plain_characters(memory_pressure) -> None:
    app = app_for(memory_pressure.run(60), watch="Blocks → queue", ascii=True)

    async def script(pilot: Pilot) -> None:
        for keys in ("question_mark", "ctrl+p", "g", "slash", "left m left D", "5 tab up s"):
            await pilot.press(*keys.split())
            await until(pilot, lambda: len(app.screen_stack) > 1)
            await settle(pilot)
            shown = html.unescape(app.export_screenshot()).replace("\xa0", " ")
            assert shown.isascii(), keys
            await pilot.press("escape")
            await settle(pilot)
        app.tell("↑ and ↓")
        await until(pilot, lambda: told(app) == ["^ and v"])

    drive(app, script)
