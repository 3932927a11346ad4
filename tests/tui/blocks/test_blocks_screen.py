"""The Blocks screen in a terminal: what folds and unfolds, and what keys and the mouse choose."""

import asyncio
from types import SimpleNamespace

import pytest
from support.tui.driven_app import until
from textual.app import App

from minivllm.events import types as ev
from minivllm.events.types.kernels import TracedProgram, TracedRead, TracedTile
from minivllm.tui.context import Context
from minivllm.tui.draw.selection import Selection
from minivllm.tui.draw.theme import DARK
from minivllm.tui.keys.commands import COMMANDS, bindings, run_command
from minivllm.tui.keys.look_keys import LookKeys
from minivllm.tui.screens.blocks import BlocksScreen
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.transport import Transport
from minivllm.tui.widgets.blocks.blockmap import BlockMap, lay_out
from minivllm.tui.widgets.blocks.inspector import Inspector
from minivllm.tui.widgets.blocks.mass import Mass
from minivllm.tui.widgets.blocks.prefix_tree import PrefixTree
from minivllm.tui.widgets.blocks.xray import XRay
from minivllm.tui.widgets.frame.panel import Panel


class Host(App):
    """One screen and the keys, at the end of a run."""

    CSS_PATH = "../../../tui/dashboard.tcss"
    BINDINGS = bindings()

    def __init__(self, stage, steps: int) -> None:
        super().__init__()
        self.register_theme(DARK)
        self.theme, self.look_keys = DARK.name, LookKeys(self)
        self.view = DashboardModel(stage.header)
        events = stage.run(steps).events
        for event in events:
            self.view.apply(event)
        # Only what this screen asks of a transport; moving through a recording has tests of its own.
        transport = Transport.__new__(Transport)
        transport.view, transport.state, transport.speed, transport.marks = self.view, "paused", 1.0, []
        transport.position, transport.source = (
            len(events),
            SimpleNamespace(status=SimpleNamespace(state="live", text="")),
        )
        transport.recording = _Recording(self.view, events)
        self.context = Context(transport, selection=Selection())
        self.shown = BlocksScreen(self.context)

    async def on_mount(self) -> None:
        await self.push_screen(self.shown)
        self.call_after_refresh(self.shown.draw)

    async def action_command(self, command_id: str) -> None:
        await run_command(COMMANDS, command_id, self)

    def on_panel_chosen(self, message: Panel.Chosen) -> None:
        self.context.selection.choose(message.target)
        self.shown.draw()

    def text(self) -> str:
        """The whole screen."""
        return "\n".join(
            "".join(segment.text for segment in strip) for strip in self.screen._compositor.render_strips()
        )


class _Recording:
    def __init__(self, head: DashboardModel, events: list) -> None:
        self.head, self._events = head, events

    def __len__(self) -> int:
        return len(self._events)

    def events(self, start: int, stop: int):
        return iter(self._events[start:stop])


def play(app: Host, size: tuple[int, int], scene) -> None:
    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await scene(pilot)

    asyncio.run(run())


def height_of(app: Host, kind: type[Panel]) -> int:
    return app.shown.query_one(kind).content_size.height


@pytest.mark.parametrize(("size", "all_open"), [((80, 24), False), ((120, 36), False), ((200, 60), True)])
def test_at_every_size_map_inspector_tree_and_queue_are_there_and_titles_of_the_rest(
    size: tuple[int, int], all_open: bool, shared_prefix
) -> None:
    app = Host(shared_prefix, 26)

    async def scene(pilot) -> None:
        await pilot.press("tab")
        text = app.text()
        for words in (
            "KV cache",
            "Block inspector",
            "Prefix cache",
            "what dies next",
            "Attention mass",
            "Kernel x-ray",
        ):
            assert words in text
        assert "No block is chosen." in text
        assert "0-5 abcd 6 blocks ● hit" in text
        assert "next 24 25 26" in text
        assert ("No kernel was traced" in text) == all_open
        assert height_of(app, BlockMap) >= 9 and height_of(app, Inspector) >= 8 and height_of(app, PrefixTree) >= 5

    play(app, size, scene)


def test_the_focus_unfolds_a_panel_and_folds_the_one_before(shared_prefix) -> None:
    app = Host(shared_prefix, 26)

    async def scene(pilot) -> None:
        assert height_of(app, PrefixTree) > 4 and height_of(app, Mass) == 0
        app.shown.query_one(Mass).focus()
        await until(pilot, lambda: height_of(app, PrefixTree) == 0 and height_of(app, Mass) > 4)
        await until(pilot, lambda: "not recorded: M records it" in app.text())
        # It stays open while a person goes back to the map.
        app.shown.query_one(BlockMap).focus()
        await until(pilot, lambda: height_of(app, Mass) > 4)

    play(app, (80, 24), scene)


def test_what_somebody_asked_for_is_unfolded_when_it_comes(shared_prefix) -> None:
    app = Host(shared_prefix, 26)

    async def scene(pilot) -> None:
        app.view.mass["r0.0"] = [0.5, 0.5]
        app.shown.draw()
        await until(pilot, lambda: height_of(app, Mass) > 4 and "a r0 most on entry 0" in app.text())
        tile = TracedTile([TracedRead(5, 0, 8)], [1.0], [2.0])
        program = TracedProgram("decode", (0, 0, 0), 0, [tile] * 3)
        app.view.remembered.trace = ev.KernelTraced(9, 26, 0.1, "r0.0", 1, 9, [program])
        app.shown.draw()
        await until(pilot, lambda: height_of(app, XRay) > 4 and height_of(app, Mass) == 0 and "5:0-7" in app.text())
        panel = app.shown.query_one(XRay)
        panel.focus()
        await pilot.press("down", "down")
        counter = panel.counter
        assert counter >= 2 and not panel.plays
        panel.tick()
        assert panel.counter == counter

    play(app, (80, 24), scene)


@pytest.mark.parametrize("size", [(80, 24), (120, 36), (200, 60)])
def test_the_cursor_and_the_mouse_choose_blocks_on_the_map(size: tuple[int, int], shared_prefix) -> None:
    app = Host(shared_prefix, 26)

    async def scene(pilot) -> None:
        panel = app.shown.query_one(BlockMap)
        panel.focus()
        await pilot.press("down", "down", "down")
        assert app.context.selection.block_id == 2
        await pilot.press("pagedown")
        assert app.context.selection.block_id == 14
        assert "block   14 in use, 1 owner" in app.text() and "a r0 entry 8" in app.text()
        width, height = panel.content_size
        x, y = lay_out(64, width, height - 1).origin(21)
        left = panel.gutter.left
        await pilot.click(BlockMap, offset=(x + left, y + 1))
        assert app.context.selection.block_id == 21
        assert "block   21 in use, 1 owner" in app.text()

    play(app, size, scene)
