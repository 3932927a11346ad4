"""The Blocks screen in a terminal: folding panels, and selection by keys and mouse."""

import re

import pytest
import textual.constants
from support.tui.driven_app import (
    SIZES,
    all_drawn,
    app_for,
    drawn,
    drive,
    panel,
    settle,
    show_screen,
    told,
    until,
)
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.events.types.kernels import TracedProgram, TracedRead, TracedTile
from minivllm.tui.app import DashboardApp
from minivllm.tui.draw.lines import target_of
from minivllm.tui.draw.selection import block
from minivllm.tui.widgets.blocks.blockmap import lay_out

pytestmark = pytest.mark.usefixtures("no_footer")


@pytest.fixture
def app(shared_prefix) -> DashboardApp:
    return app_for(shared_prefix.run(26))


def height_of(app: DashboardApp, id: str) -> int:
    return panel(app, f"blocks-{id}").content_size.height


@pytest.mark.parametrize("size", SIZES)
def test_all_panels_have_room_at_every_size_and_blocks_can_be_selected(
    size: tuple[int, int], app: DashboardApp
) -> None:
    async def script(pilot: Pilot) -> None:
        await show_screen(pilot, "blocks")
        # In a tall terminal nothing is folded.
        await until(pilot, lambda: (height_of(app, "xray") > 0) == (size == SIZES[-1]))
        text = all_drawn(app)
        assert "0-5 abcd 6 blocks ● hit" in text and "next 24 25 26" in text
        least = {"map": 9, "inspector": 8, "tree": 4}
        assert all(height_of(app, id) >= height for id, height in least.items())
        blocks = panel(app, "blocks-map")
        blocks.focus()
        await pilot.press("down", "down", "down", "pagedown")
        await settle(pilot)
        assert app.context.selection.block_id == 14
        assert "block   14 in use, 1 owner" in all_drawn(app) and "a r0 entry 8" in all_drawn(app)
        width, height = blocks.content_size
        x, y = lay_out(64, width, height - 1).origin(21)
        await pilot.click("#blocks-map", offset=(x + blocks.gutter.left, y + 1))
        await settle(pilot)
        assert "block   21 in use, 1 owner" in all_drawn(app)
        words = re.search(r"prompt +.*│.*│|output +.*│.*│", all_drawn(app))[0]
        await pilot.press("i")
        await settle(pilot)
        assert words not in all_drawn(app), "ids take the place of the words"
        await pilot.press("i")
        await settle(pilot)
        assert words in all_drawn(app) and "shows tokens as words" in told(app)[-1]

    drive(app, script, size)


def test_a_click_on_a_word_beyond_the_edge_a_card_or_a_slot_selects_its_block(
    app: DashboardApp,
) -> None:
    async def script(pilot: Pilot) -> None:
        await show_screen(pilot, "blocks")
        app.context.selection.choose(block(1))
        app.draw()
        inspector = panel(app, "blocks-inspector")
        for expected in (2, 1):
            await settle(pilot)
            places = [
                (x, y)
                for y in range(inspector.content_size.height)
                for x in range(inspector.content_size.width)
                if inspector.target_at(x, y) == block(expected)
            ]
            x, y = places[0 if expected == 1 else -1]
            gutter = inspector.gutter
            await pilot.click(inspector, offset=(x + gutter.left, y + gutter.top))
            await settle(pilot)
            assert app.context.selection.block_id == expected
        cards = panel(app, "blocks-cards")
        await until(pilot, lambda: any("▌▌▌▌" in row for row in drawn(app, cards.id)))
        first = int(re.search(r"▌▌▌▌(\d+) abcd", " ".join(drawn(app, cards.id)))[1])
        await pilot.click(cards, offset=(cards.gutter.left + 8, cards.gutter.top + 1))
        await settle(pilot)
        assert f"block   {first} in use, shared by 4" in all_drawn(app)
        await show_screen(pilot, "overview")
        slots = panel(app, "slots")
        at, style = next(
            (sum(len(text) for text, _ in slots._lines[1][:number]), style)
            for number, (_, style) in enumerate(slots._lines[1])
            if "@block" in style
        )
        await pilot.click(slots, offset=(at + slots.gutter.left, 1 + slots.gutter.top))
        await settle(pilot)
        assert block(app.context.selection.block_id) == target_of(style)

    drive(app, script, (200, 50))


@pytest.mark.parametrize("name", ["NO_COLOR", "TEXTUAL_ANIMATIONS", None])
def test_signs_fade_unless_the_user_wants_no_colours_or_no_animations(
    name: str | None, shared_prefix, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if name == "NO_COLOR":
        monkeypatch.setenv(name, "1")
    # Textual reads this variable when it is imported.
    level = "none" if name == "TEXTUAL_ANIMATIONS" else "full"
    monkeypatch.setattr(textual.constants, "TEXTUAL_ANIMATIONS", level)
    stage = shared_prefix.run()
    hit = next(event for event in stage.events if isinstance(event, ev.BlockHit))
    app = app_for(stage)

    async def script(pilot: Pilot) -> None:
        await show_screen(pilot, "blocks")
        shown = []
        for step in range(hit.step, hit.step + 4):
            app.context.transport.to_step(step)
            app.draw()
            await settle(pilot)
            shown.append(f"{hit.block_id}●" in "\n".join(drawn(app, "blocks-map")))
        assert shown == [True, name is None, name is None, False]

    drive(app, script, (200, 50))


def test_the_focus_a_trace_and_watched_attention_unfold_their_panels(app: DashboardApp) -> None:
    async def script(pilot: Pilot) -> None:
        await show_screen(pilot, "blocks")
        assert height_of(app, "tree") >= 4 and height_of(app, "mass") == 0
        panel(app, "blocks-mass").focus()
        await until(pilot, lambda: height_of(app, "tree") == 0 and height_of(app, "mass") >= 4)
        # It stays open when the focus returns to the map.
        panel(app, "blocks-map").focus()
        await settle(pilot)
        assert height_of(app, "mass") >= 4
        view = app.context.transport.view
        program = TracedProgram(
            "decode", (0, 0, 0), 0, [TracedTile([TracedRead(5, 0, 8)], [1.0], [2.0])]
        )
        view.remembered.trace = ev.KernelTraced(9, 26, 0.1, "r0.0", 1, 9, [program])
        app.draw()
        await until(pilot, lambda: height_of(app, "xray") >= 4 and height_of(app, "mass") == 0)
        # With attention that is recorded, its panel opens; it folds with the last sequence.
        view.mass[app.model.fold.running[0]] = [1.0]
        app.draw()
        await until(pilot, lambda: height_of(app, "mass") >= 4)
        view.mass.clear()
        app.draw()
        await until(pilot, lambda: height_of(app, "mass") == 0)

    drive(app, script, (80, 24))
