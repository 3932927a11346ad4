"""The Blocks screen in a terminal: folding panels, and selection by keys and mouse."""

import re

import pytest
import textual.constants
from support.engine.random_runs import folded
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
from minivllm.tui.context import Context
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import block
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.blocks.blockmap import lay_out
from minivllm.tui.widgets.blocks.inspector import Inspector


@pytest.fixture
def app(shared_prefix) -> DashboardApp:
    return app_for(shared_prefix.run(26))


def first_ids(events: list[ev.Event], count: int) -> str:
    """The ids of the first tokens of the first prompt."""
    arrived = next(event for event in events if isinstance(event, ev.RequestArrived))
    return " ".join(map(str, arrived.prompt_token_ids[:count]))


def height_of(app: DashboardApp, id: str) -> int:
    return panel(app, f"blocks-{id}").content_size.height


def test_a_broad_terminal_has_four_cards_in_a_row_and_no_shorter_tree(
    shared_prefix, no_footer
) -> None:
    app = app_for(shared_prefix.run(40), state="paused")

    async def script(pilot: Pilot) -> None:
        app.context.transport.to_step(40)
        await show_screen(pilot, "blocks")
        head, *_ = drawn(app, "blocks-cards")
        assert len(re.findall(r"▌ ?\d+ [a-z]", head)) == 4
        assert not [row for row in drawn(app, "blocks-cards") if "more block" in row]
        assert not [row for row in drawn(app, "blocks-tree") if row.startswith("+ ")]
        assert drawn(app, "blocks-map")[1].strip() == "", "rows of the map stay apart"

    drive(app, script, (200, 50))


@pytest.mark.parametrize("size", SIZES)
def test_all_panels_have_room_at_every_size_and_blocks_can_be_selected(
    size: tuple[int, int], app: DashboardApp, no_footer
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

    drive(app, script, size)


def test_a_block_shows_words_and_a_key_shows_their_ids(
    app: DashboardApp, shared_prefix, no_footer
) -> None:
    async def script(pilot: Pilot) -> None:
        await show_screen(pilot, "blocks")
        panel(app, "blocks-map").focus()
        await pilot.press("down")
        await settle(pilot)
        words = "prompt  You ·are ·a ·careful ·assistant ·in"
        assert words in all_drawn(app)
        await pilot.press("i")
        await settle(pilot)
        assert f"prompt  {first_ids(shared_prefix.events, 8)}" in all_drawn(app)
        await pilot.press("i")
        await settle(pilot)
        assert words in all_drawn(app) and "shows tokens as words" in told(app)[-1]

    drive(app, script)


def test_an_old_recording_shows_ids_and_says_so_in_one_sentence(shared_prefix) -> None:
    stage = shared_prefix.run(26)
    model = DashboardModel(stage.header)
    for event in stage.events:
        if type(event) is not ev.TokensNamed:
            model.apply(event)
    inspector = Inspector()
    inspector.context = Context(transport=None)
    inspector.context.selection.choose(block(0))
    rows = [text_of(line) for line in inspector.lines(model, 80, 20)]
    assert any(row.startswith(f"prompt  {first_ids(stage.events, 8)} │") for row in rows)
    assert "words   This old recording has no words, so tokens are shown as ids." in rows
    inspector.context.shows_ids = True
    assert not any("old recording" in text_of(line) for line in inspector.lines(model, 80, 20))


def test_a_word_beyond_the_edge_selects_its_block_and_leads_back(
    app: DashboardApp, shared_prefix, no_footer
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

    drive(app, script, (200, 50))


def test_where_prompts_part_behind_a_block_the_inspector_shows_each_way_once(stage, ask) -> None:
    beginning = "one two three four five six seven eight "
    ends = ("red hat and coat", "red hat and shoe", "blue sky and sea")
    model = folded(
        stage([ask(f"r{n}", beginning + end, "no") for n, end in enumerate(ends)]).run(1)
    )
    inspector = Inspector()
    inspector.context = Context(transport=None)
    inspector.context.selection.choose(block(0))
    rows = [text_of(line).split() for line in inspector.lines(model, 110, 30)]
    assert ["then", "·red", "·hat", "or", "·blue", "·sky"] in rows


def test_a_free_block_keeps_its_words_until_it_is_evicted(memory_pressure) -> None:
    model, words = DashboardModel(memory_pressure.header), {}
    was_shown = 0
    inspector = Inspector()
    inspector.context = Context(transport=None)
    for event in memory_pressure.run().events:
        model.apply(event)
        if isinstance(event, ev.BlockHashed):
            words[event.block_id] = list(model.ages.tokens(event.block_id))
            assert len(words[event.block_id]) == 8
        if isinstance(event, ev.BlockEvicted):
            assert not model.ages.tokens(event.block_id)
        if isinstance(event, ev.BlockFreed) and model.fold.blocks[event.block_id].hash:
            inspector.context.selection.choose(block(event.block_id))
            (row,) = [
                line for line in inspector.lines(model, 250, 30) if text_of(line)[:6] == "cached"
            ]
            pieces = [model.fold.token_pieces[at] for at in words[event.block_id]]
            shown = [text for text, style in row if "=" in style]
            assert shown == [piece.replace(" ", "·") for piece in pieces]
            was_shown += 1
    assert was_shown > 20


@pytest.mark.parametrize("name", ["NO_COLOR", "TEXTUAL_ANIMATIONS", None])
def test_signs_fade_unless_the_user_wants_no_colours_or_no_animations(
    name: str | None, shared_prefix, monkeypatch: pytest.MonkeyPatch, no_footer
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


def test_the_focus_unfolds_a_panel_and_so_does_a_new_trace(app: DashboardApp, no_footer) -> None:
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
        tile = TracedTile([TracedRead(5, 0, 8)], [1.0], [2.0])
        program = TracedProgram("decode", (0, 0, 0), 0, [tile] * 3)
        view.remembered.trace = ev.KernelTraced(9, 26, 0.1, "r0.0", 1, 9, [program])
        app.draw()
        await until(
            pilot,
            lambda: (
                height_of(app, "xray") >= 4
                and height_of(app, "mass") == 0
                and "tile 1 of 3: blocks 5" in all_drawn(app)
            ),
        )

    drive(app, script, (80, 24))


def test_attention_folds_when_the_last_watched_sequence_has_ended(
    app: DashboardApp, no_footer
) -> None:
    async def script(pilot: Pilot) -> None:
        await show_screen(pilot, "blocks")
        mass = app.context.transport.view.mass
        mass[app.model.fold.running[0]] = [1.0]
        app.draw()
        await until(pilot, lambda: height_of(app, "tree") == 0 and height_of(app, "mass") >= 4)
        mass.clear()
        app.draw()
        await until(pilot, lambda: height_of(app, "tree") >= 4 and height_of(app, "mass") == 0)
        # A panel with the focus stays open.
        panel(app, "blocks-mass").focus()
        await until(pilot, lambda: height_of(app, "mass") >= 4)
        for shares in ({app.model.fold.running[0]: [1.0]}, {}):
            mass.clear()
            mass.update(shares)
            app.draw()
            await settle(pilot)
            assert height_of(app, "mass") >= 4

    drive(app, script)
