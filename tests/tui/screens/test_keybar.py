"""The bottom line follows the screen, the panel with the focus, and the mode."""

import pytest
from support.tui.driven_app import SCREENS, app_for, drawn, drive, panel, settle, show_screen, until
from support.tui.key_seat import FakeControl
from textual.pilot import Pilot
from textual.widgets._footer import FooterKey

from minivllm.tui.app import DashboardApp
from minivllm.tui.draw.selection import sequence


def keys(app: DashboardApp) -> dict[str, str]:
    """Label -> key, from left to right."""
    shown = app.dashboard_screen.query(FooterKey)
    return {key.description: key.key_display for key in shown}


async def until_shown(pilot: Pilot, *labels: str) -> None:
    await until(pilot, lambda: set(labels) <= set(keys(pilot.app)))


async def until_gone(pilot: Pilot, *labels: str) -> None:
    await until(pilot, lambda: set(labels).isdisjoint(keys(pilot.app)))


def test_the_keys_are_those_of_the_panel_with_the_focus(memory_pressure) -> None:
    app = app_for(memory_pressure.run(20), control=FakeControl())
    expected = {
        ("overview", None): ("Panel", "Why?"),
        ("overview", "slots"): ("Select", "Why?", "Abort"),
        ("overview", "eventlog"): ("Select", "Source", "Filter", "Event"),
        ("blocks", "blocks-inspector"): ("Select", "Ids/words"),
        ("blocks", "blocks-tree"): ("Select", "Source"),
        ("scheduler", "step-history"): ("Select", "Source"),
        ("requests", "timelines"): ("Select", "Abort"),
    }

    async def script(pilot: Pilot) -> None:
        for (name, focused), labels in expected.items():
            await show_screen(pilot, name)
            app.screen.set_focus(None if focused is None else panel(app, focused))
            await until_shown(pilot, *labels)
            await until(pilot, lambda focused=focused: ("Select" in keys(app)) == bool(focused))
        await until_gone(pilot, "Ids/words", "Source", "Filter")
        app.context.selection.choose(sequence("r0.0"))
        await show_screen(pilot, "overview")
        app.screen.set_focus(panel(app, "slots"))
        await until_shown(pilot, "Inspect")

    drive(app, script, (200, 50))


def test_the_keys_are_those_of_the_mode(memory_pressure) -> None:
    app = app_for(memory_pressure.run(20))

    async def script(pilot: Pilot) -> None:
        await until_shown(pilot, "Pause", "Step back")
        assert "Live" not in keys(app)
        await pilot.press("left")
        await until_shown(pilot, "Play", "Step", "Live")
        await pilot.press("home", "space")
        await until_shown(pilot, "Pause", "Faster", "Slower")
        await pilot.press("left", "m")
        await until_shown(pilot, "Close", "To mark", "Diff")
        assert next(iter(keys(app).items())) == ("Close", "esc")
        await pilot.press("escape")
        await until_gone(pilot, "Close", "Faster")
        await pilot.press("w")
        await until_shown(pilot, "Close")
        await pilot.press("escape", "tab", "z")
        await until_shown(pilot, "Back to all panels")
        await pilot.press("z")
        await until_gone(pilot, "Back to all panels", "Close")

    drive(app, script)


def test_a_message_that_goes_by_itself_takes_its_key_along(memory_pressure) -> None:
    app = app_for(memory_pressure.run(20))

    async def script(pilot: Pilot) -> None:
        app.notify("Something passes.", timeout=0.5)
        await until_shown(pilot, "Close")
        await until_gone(pilot, "Close")

    drive(app, script)


@pytest.mark.parametrize(("size", "of"), [((80, 24), ""), ((120, 36), " picture")])
def test_pausing_the_picture_and_pausing_the_engine_are_two_keys_with_two_names(
    size: tuple[int, int], of: str, memory_pressure
) -> None:
    app = app_for(memory_pressure.run(20), control=FakeControl())

    def badge() -> str:
        return drawn(app, "header")[0].strip().split("  ")[-1].strip()

    async def script(pilot: Pilot) -> None:
        await until_shown(pilot, f"Pause{of}", "Pause engine", "Why?", "Ask")
        await pilot.press("space")
        await until(pilot, lambda: badge() == "PICTURE PAUSED")
        await until_shown(pilot, f"Play{of}", "Pause engine", "Why?", "Ask", "Step", "Live")
        await pilot.press("p")
        await until_shown(pilot, f"Play{of}", "Resume engine", "One step", "One phase")
        await until(pilot, lambda: badge() == "PICTURE, ENGINE PAUSED")
        await pilot.press("end")
        await until(pilot, lambda: badge() == "ENGINE PAUSED before schedule")
        await pilot.press("space", "end", "p")
        await until_shown(pilot, f"Pause{of}", "Pause engine", "Why?", "Ask")

    drive(app, script, size)


@pytest.mark.parametrize("size", [(40, 12), (80, 24), (300, 80)])
def test_help_and_quit_are_always_there_and_no_key_is_cut(
    size: tuple[int, int], memory_pressure
) -> None:
    app = app_for(memory_pressure.run(20), control=FakeControl())

    async def script(pilot: Pilot) -> None:
        for name in SCREENS:
            await show_screen(pilot, name)
            for _ in range(2):
                await pilot.press("tab")
                await settle(pilot)
                # The keys are made anew after each change.
                await until(pilot, lambda: list(keys(app))[-2:] == ["Help", "Quit"])
                shown = list(app.dashboard_screen.query(FooterKey))
                assert shown[-1].region.right <= size[0] and len(keys(app)) == len(shown)

    drive(app, script, size)


def test_a_run_with_a_token_offers_a_race_at_120_columns(memory_pressure) -> None:
    app = app_for(memory_pressure.run(20), control=FakeControl())

    async def script(pilot: Pilot) -> None:
        await until_shown(pilot, "Race", "Ask")

    drive(app, script, (120, 36))
