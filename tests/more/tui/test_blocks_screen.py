"""The Blocks screen in a terminal: folding panels, and selection by keys and mouse."""

import re

import pytest
from support.tui.driven_app import all_drawn, app_for, drawn, drive, panel, press, settle, until
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.events.types.kernels import TracedProgram, TracedRead, TracedTile
from minivllm.tui.app import DashboardApp


@pytest.fixture
def app(shared_prefix) -> DashboardApp:
    return app_for(shared_prefix.run(26))


def height_of(app: DashboardApp, id: str) -> int:
    return panel(app, f"blocks-{id}").content_size.height


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
def test_all_panels_have_room_at_every_size_and_a_card_can_be_clicked(size, app) -> None:
    async def script(pilot: Pilot) -> None:
        await press(pilot, "2")
        # In a tall terminal nothing is folded.
        await until(pilot, lambda: (height_of(app, "xray") > 0) == (size[1] == 60))
        text = all_drawn(app)
        assert "0-5 abcd 6 blocks ● hit" in text and "next 24 25 26" in text
        least = {"map": 9 if size[1] > 24 else 5, "inspector": 8, "tree": 4}
        assert all(height_of(app, id) >= height for id, height in least.items())
        cards = panel(app, "blocks-cards")
        if cards.display and size[1] > 24:
            first = re.search(r"▌▌▌▌(\d+) abcd", drawn(app, cards.id)[0])[1]
            await pilot.click(cards, offset=(cards.gutter.left + 8, cards.gutter.top + 1))
            await settle(pilot)
            assert f"block   {first} in use, shared by 4" in all_drawn(app)

    drive(app, script, size)


def test_the_focus_and_a_trace_unfold_their_panels(app: DashboardApp) -> None:
    async def script(pilot: Pilot) -> None:
        await press(pilot, "2")
        assert height_of(app, "tree") >= 4 and height_of(app, "mass") == 0
        panel(app, "blocks-mass").focus()
        await until(pilot, lambda: height_of(app, "tree") == 0 and height_of(app, "mass") >= 4)
        panel(app, "blocks-map").focus()
        tile = TracedTile([TracedRead(5, 0, 8)], [1.0], [2.0])
        program = TracedProgram("decode", (0, 0, 0), 0, [tile])
        trace = ev.KernelTraced(9, 26, 0.1, "r0.0", 1, 9, [program])
        app.context.transport.view.remembered.trace = trace
        app.draw()
        await until(pilot, lambda: height_of(app, "xray") >= 4 and height_of(app, "mass") == 0)

    drive(app, script, (80, 24))
