"""The Blocks screen in a terminal: what folds and unfolds, and what keys and the mouse choose."""

import pytest
from support.tui.driven_app import until
from support.tui.memory_recording import context_of
from support.tui.screen_host import SIZES, ScreenHost, drive
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.events.types.kernels import TracedProgram, TracedRead, TracedTile
from minivllm.tui.screens.blocks import BlocksScreen
from minivllm.tui.widgets.blocks.blockmap import BlockMap, lay_out
from minivllm.tui.widgets.blocks.inspector import Inspector
from minivllm.tui.widgets.blocks.mass import Mass
from minivllm.tui.widgets.blocks.prefix_tree import PrefixTree
from minivllm.tui.widgets.blocks.xray import XRay
from minivllm.tui.widgets.frame.panel import Panel


@pytest.fixture
def app(shared_prefix) -> ScreenHost:
    return ScreenHost(BlocksScreen, context_of(shared_prefix.run(26)))


def text_of(app: ScreenHost) -> str:
    """The whole screen."""
    return "\n".join(
        "".join(segment.text for segment in strip)
        for strip in app.screen._compositor.render_strips()
    )


def height_of(app: ScreenHost, kind: type[Panel]) -> int:
    return app.shown.query_one(kind).content_size.height


@pytest.mark.parametrize("size", SIZES)
def test_map_inspector_tree_and_queue_have_room_at_every_size_and_blocks_are_chosen(
    size: tuple[int, int], app: ScreenHost
) -> None:
    async def script(pilot: Pilot) -> None:
        text = text_of(app)
        for words in (
            "KV cache",
            "Block inspector",
            "Prefix cache",
            "Attention mass",
            "Kernel x-ray",
        ):
            assert words in text
        assert "0-5 abcd 6 blocks ● hit" in text and "next 24 25 26" in text
        assert ("No kernel was traced" in text) == (size == SIZES[-1])
        assert (
            height_of(app, BlockMap) >= 9
            and height_of(app, Inspector) >= 8
            and height_of(app, PrefixTree) >= 5
        )
        panel = app.shown.query_one(BlockMap)
        panel.focus()
        await pilot.press("down", "down", "down")
        assert app.context.selection.block_id == 2
        await pilot.press("pagedown")
        assert app.context.selection.block_id == 14
        assert "block   14 in use, 1 owner" in text_of(app) and "a r0 entry 8" in text_of(app)
        width, height = panel.content_size
        x, y = lay_out(64, width, height - 1).origin(21)
        await pilot.click(BlockMap, offset=(x + panel.gutter.left, y + 1))
        assert app.context.selection.block_id == 21 and "block   21 in use, 1 owner" in text_of(app)

    drive(app, script, size)


def test_the_focus_unfolds_a_panel_and_so_does_what_somebody_asked_for(app: ScreenHost) -> None:
    async def script(pilot: Pilot) -> None:
        assert height_of(app, PrefixTree) > 4 and height_of(app, Mass) == 0
        app.shown.query_one(Mass).focus()
        await until(pilot, lambda: height_of(app, PrefixTree) == 0 and height_of(app, Mass) > 4)
        # It stays open while a person goes back to the map.
        app.shown.query_one(BlockMap).focus()
        await until(pilot, lambda: height_of(app, Mass) > 4)
        view = app.context.transport.view
        view.mass["r0.0"] = [0.5, 0.5]
        app.shown.draw()
        await until(
            pilot, lambda: height_of(app, Mass) > 4 and "a r0 most on entry 0" in text_of(app)
        )
        tile = TracedTile([TracedRead(5, 0, 8)], [1.0], [2.0])
        program = TracedProgram("decode", (0, 0, 0), 0, [tile] * 3)
        view.remembered.trace = ev.KernelTraced(9, 26, 0.1, "r0.0", 1, 9, [program])
        app.shown.draw()
        await until(
            pilot,
            lambda: (
                height_of(app, XRay) > 4 and height_of(app, Mass) == 0 and "5:0-7" in text_of(app)
            ),
        )
        panel = app.shown.query_one(XRay)
        panel.focus()
        await pilot.press("down", "down")
        counter = panel.counter
        panel.tick()
        assert panel.counter == counter >= 2 and not panel.plays, "a person took over"

    drive(app, script, (80, 24))
