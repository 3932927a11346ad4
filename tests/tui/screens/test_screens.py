"""The screens in the real app: safe against foreign text, and chosen from with the mouse."""

import re

from support.tui import driven_app
from support.tui.driven_app import all_drawn, app_for, click, drawn, drive, panel, show_screen
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.tui.draw.selection import block, event, sequence, step

CONTROL_CHARACTERS = {
    *map(chr, (*range(9), *range(11, 32), *range(127, 160))),
    *"\u200d\u202e\u2066",
}
"""Control characters and combining marks. A picture has its own tabs and line ends."""
HOSTILE = (
    "\x1b[31m\x1b]0;owned\x07[bold red]x[/bold red] [@click=app.quit]y[/] \u202egnp.exe\u2066\x9b2J"
    " {0} %s \\[ 漢字 שלום e\u0301 🏳️\u200d🌈 $accent <text>&amp; \r\n\t"
)


def test_no_screen_executes_terminal_codes_from_outside(stage, ask) -> None:
    said = f"{HOSTILE}\n" * 9
    asks = [
        ask(f"{HOSTILE}{i}", HOSTILE * (1 + i), said, arrives=3 * i, samples=1 + i % 2)
        for i in range(4)
    ]
    run = stage(asks, model=HOSTILE, num_blocks=90).run(60)
    last = run.events[-1]
    mass = ev.AttentionMass(last.seq + 1, last.step, last.t, run.engine.inspect().running[0], [0.5])
    problem = ev.KernelTraced(last.seq + 2, last.step, last.t, mass.seq_id, 1, 9, [], HOSTILE)
    run.events += [mass, problem]
    app = app_for(run, watch=HOSTILE, other=driven_app.source_of(run))

    def check() -> None:
        for drawing in (app.export_screenshot(), all_drawn(app)):
            assert not set(drawing) & CONTROL_CHARACTERS

    async def script(pilot: Pilot) -> None:
        app.context.selection.choose(sequence(mass.seq_id))
        for name in driven_app.SCREENS:
            await show_screen(pilot, name)
            check()
            assert "[bold red]x" in all_drawn(app) or name in ("scheduler", "blocks"), name
        for keys in ("w", "question_mark", "s", "ctrl+p"):
            await driven_app.press(pilot, keys)
            check()
            await pilot.press("escape")
        await driven_app.press(pilot, "w", "question_mark")
        assert driven_app.told(app) == [], "an answer would be painted over the help"
        await pilot.press("escape")
        for key in ("g", "slash"):
            await pilot.press(key)
            await driven_app.answer(pilot, HOSTILE)
            check()
        await show_screen(pilot, "overview")
        app.show_summary([HOSTILE])
        await pilot.press("end")
        await driven_app.until(pilot, lambda: "[bold red]x" in "".join(drawn(app, "summary")))
        check()
        assert app.is_running and not app._exit

    drive(app, script, (80, 24))


def test_a_click_selects_and_a_double_click_opens(memory_pressure) -> None:
    app = app_for(memory_pressure.run(40))
    chosen = app.context.selection

    async def at_block(pilot: Pilot, number: int, times: int) -> None:
        shown = panel(app, "blockmap")
        width, height = shown.content_size
        grid, _ = shown._lay_out(app.model, width, height - 1)
        x, y = grid.origin(number)
        at = shown.content_region.offset - shown.region.offset
        await pilot.click("#blockmap", offset=(at.x + x, at.y + y), times=times)
        await driven_app.settle(pilot)

    async def script(pilot: Pilot) -> None:
        await at_block(pilot, 13, 1)
        assert (chosen.last, app.current_mode) == (block(13), "overview")
        await at_block(pilot, 14, 2)
        assert (chosen.last, app.current_mode) == (block(14), "blocks")
        await show_screen(pilot, "overview")
        running, waiting = app.model.fold.running[1], app.model.fold.waiting[0]
        await click(pilot, "slots", f" {running.removesuffix('.0')} ")
        assert (chosen.last, app.current_mode) == (sequence(running), "overview")
        await click(pilot, "waiting", waiting.removesuffix(".0"), times=2)
        assert (chosen.last, app.current_mode) == (sequence(waiting), "requests")
        await show_screen(pilot, "scheduler")
        row = next(row for row in drawn(app, "step-history")[3:] if re.match(r"\s*\d+ ", row))
        await click(pilot, "step-history", row.strip())
        assert (chosen.last, app.current_mode) == (step(int(row.split()[0])), "scheduler")
        await show_screen(pilot, "events")
        row = drawn(app, "events")[8].strip()
        number = int(re.search(r"\d+", row).group())
        await click(pilot, "events", row)
        assert (chosen.last, app.context.transport.position) == (event(number), number + 1)
        await show_screen(pilot, "overview")
        await click(pilot, "timeline", "step")  # an empty place
        assert app.current_mode == "overview"
        await click(pilot, "eventlog", "takes", times=2)
        assert app.current_mode == "events" and chosen.last.kind == "event"

    drive(app, script)
