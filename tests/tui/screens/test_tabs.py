"""The tabs: they name the screens, mark the current one, and open a screen at a click."""

from itertools import pairwise

import pytest
from support.tui.driven_app import SCREENS, app_for, drive, panel, settle, show_screen, until
from textual.events import Resize
from textual.geometry import Size
from textual.pilot import Pilot
from textual.widgets import Tab

from minivllm.tui.app import DashboardApp
from minivllm.tui.widgets.frame.header import Header

NAMES = ["Overview", "Blocks", "Scheduler", "Requests", "Events", "Compare", "Choice"]


def tabs(app: DashboardApp) -> list[Tab]:
    return list(app.dashboard_screen.query(Tab))


def labels(app: DashboardApp) -> list[str]:
    return [tab.label_text for tab in tabs(app)]


def check_places(app: DashboardApp) -> None:
    """Every tab is visible, left of the next one, and outside the top line."""
    shown, header = [tab.region for tab in tabs(app)], panel(app, "header").region
    assert all(one.height == 1 and not one.overlaps(header) for one in shown)
    assert all(one.right <= other.x for one, other in pairwise(shown))
    assert shown[-1].right <= app.size.width and header.width >= 17


@pytest.mark.parametrize("size", [(40, 12), (59, 40), (80, 24), (120, 36), (200, 50), (300, 24)])
def test_the_tabs_name_the_screens_where_there_is_room_and_mark_the_current_one(
    size: tuple[int, int], memory_pressure, no_footer
) -> None:
    app = app_for(memory_pressure.run(20))
    whole = [f"{number} {name}" for number, name in enumerate(NAMES, 1)]

    async def script(pilot: Pilot) -> None:
        for current in (0, 3, 5):
            await show_screen(pilot, SCREENS[current])
            expected = [label[0] for label in whole]
            if size[0] >= 60:
                expected[current] = whole[current]
            assert labels(app) == (whole if size[0] >= 120 else expected)
            check_places(app)
            # Reverse, and so also visible without colours.
            styles = [bool(tab.styles.text_style.reverse) for tab in tabs(app)]
            assert styles == [number == current for number in range(len(NAMES))]

    drive(app, script, size)


@pytest.mark.parametrize("size", [(80, 24), (120, 36)])
def test_a_click_on_a_tab_opens_its_screen_and_escape_returns(
    size: tuple[int, int], memory_pressure, no_footer
) -> None:
    app = app_for(memory_pressure.run(20))

    async def script(pilot: Pilot) -> None:
        for name in (*SCREENS[1:], "overview", "overview"):
            await until(pilot, lambda: all(tab.region.area for tab in tabs(app)))
            await pilot.click(tabs(app)[SCREENS.index(name)])
            await settle(pilot)
            assert app.current_mode == name
            assert [tab.id for tab in tabs(app) if tab.has_class("-active")] == [f"tab-{name}"]
        assert app.focused is None, "a tab is never in the way of a panel's keys"
        await pilot.press("escape")
        await settle(pilot)
        assert app.current_mode == SCREENS[-1]

    drive(app, script, size)


def test_the_tabs_fit_again_after_a_resize_and_stay_beside_an_enlarged_panel(
    memory_pressure, no_footer
) -> None:
    app = app_for(memory_pressure.run(20))

    async def script(pilot: Pilot) -> None:
        for size, last in (((80, 24), "7"), ((80, 40), "7 Choice"), ((40, 12), "7")):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            assert labels(app)[-1] == last
            check_places(app)
        await pilot.press("tab", "z")
        await settle(pilot)
        check_places(app)
        await pilot.click(tabs(app)[1])
        await settle(pilot)
        assert app.current_mode == "blocks"

    drive(app, script)


def test_a_tab_shows_the_users_own_key(memory_pressure, no_footer) -> None:
    keys = {"screen.blocks": "left_square_bracket,b", "time.event_back": "f5"}
    app = app_for(memory_pressure.run(20), keymap=keys, ascii=True)

    async def script(pilot: Pilot) -> None:
        assert labels(app)[:3] == ["1 Overview", "[ Blocks", "3 Scheduler"]

    drive(app, script)


@pytest.mark.parametrize("size", [(200, 50), (120, 36), (80, 24)])
def test_the_top_line_of_every_screen_has_its_place_from_the_first_layout_on(
    size, shared_prefix, no_footer, monkeypatch
) -> None:
    places: dict[str, set[Size]] = {}

    def resized(header: Header, event: Resize) -> None:
        places.setdefault(header.screen.NAME, set()).add(event.size)

    monkeypatch.setattr(Header, "on_resize", resized, raising=False)

    async def script(pilot: Pilot) -> None:
        for name in SCREENS:
            await show_screen(pilot, name)

    drive(app_for(shared_prefix.run(9)), script, size)
    assert {name: len(sizes) for name, sizes in places.items()} == dict.fromkeys(SCREENS, 1)
