"""Every screen at every size: complete, inside its place, and drawn in plain characters if asked."""

import html
from random import Random

import pytest
from rich.cells import cell_len
from support.tui.driven_app import all_drawn, app_for, drive, press, settle, source_of, until
from support.tui.driven_app import visible as panels_of
from textual.geometry import Region
from textual.pilot import Pilot

from minivllm.tui.app import DashboardApp
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.draw.selection import block, sequence

SMALLEST, LARGEST = (40, 12), (300, 80)
CORNERS = [SMALLEST, LARGEST, (SMALLEST[0], LARGEST[1]), (LARGEST[0], SMALLEST[1])]
WATCH = "The first blocks are computed once and shared."


def check_that_everything_has_its_place(app: DashboardApp, size: tuple[int, int]) -> None:
    """Check that the panels are on the screen, do not overlap, and draw only inside themselves."""
    screen, shown = Region(0, 0, *size), panels_of(app)
    # In a terminal lower than every layout, the container cuts off the rest.
    is_cut = size[1] < 24
    place = {
        box: app.screen.find_widget(box).visible_region if is_cut else box.region for box in shown
    }
    shown = [box for box in shown if place[box].area]
    assert {box.id for box in shown} >= {"header", "timeline"}
    panels = [box for box in app.dashboard_screen.panels if box.display]
    assert all(box.region.area for box in panels)
    for number, box in enumerate(shown):
        assert screen.contains_region(place[box]), box
        assert not any(place[box].overlaps(place[other]) for other in shown[number + 1 :]), box
        width, height = box.content_size
        # A folded panel is only its title.
        assert is_cut or (width >= 10 and height >= 1) or str(box.border_title).strip(), box
        assert all(box.render_line(row).cell_length <= width for row in range(height)), box
        lines = box.lines(box._model, width, height)
        assert len(lines) <= max(height, 1), box
        assert all(cell_len(text_of(line)) <= width for line in lines), (box, lines)
    assert app.dashboard_screen.keybar.region.bottom_right == size


def test_a_terminal_that_is_too_small_obeys_keys_and_comes_back(memory_pressure) -> None:
    app = app_for(memory_pressure.run(40), watch=WATCH)

    async def script(pilot: Pilot) -> None:
        keys = "1 2 3 4 5 6 7 tab down z z left question_mark escape g escape space"
        for key in keys.split():
            await press(pilot, key)
        await pilot.resize_terminal(97, 30)
        await press(pilot, "1")
        check_that_everything_has_its_place(app, (97, 30))
        assert "r0" in all_drawn(app)

    drive(app, script, (20, 5))


def resize_at_random(stage, sizes: list[tuple[int, int]], *, ascii: bool = False) -> None:
    """Show every screen at several of the sizes, each time at another moment of the run."""
    random = Random(len(sizes))
    app = app_for(stage, watch=WATCH, other=source_of(stage), ascii=ascii)

    async def script(pilot: Pilot) -> None:
        for number, size in enumerate(sizes):
            await pilot.resize_terminal(*random.choice([(9, 3), (39, 12), (40, 11), *CORNERS]))
            await pilot.press(str(1 + number % 7))
            await pilot.resize_terminal(*size)
            transport = app.context.transport
            transport.to_position(random.randrange(len(transport.recording) + 1))
            for target in (block(random.randrange(8)), sequence("r1.0")):
                app.context.selection.choose(target)
            keys = app.dashboard_screen.keybar
            await until(pilot, lambda keys=keys, size=size: keys.region.bottom_right == size)
            app.draw()
            await settle(pilot)
            check_that_everything_has_its_place(app, size)
            rows = app.screen._compositor.render_strips()
            assert [row.cell_length for row in rows] == [size[0]] * size[1], size
            assert not ascii or to_ascii(all_drawn(app)) == all_drawn(app)

    drive(app, script, SMALLEST)


def some_sizes(seed: int, count: int) -> list[tuple[int, int]]:
    random = Random(seed)
    widths, heights = (range(low, high + 1) for low, high in zip(SMALLEST, LARGEST, strict=True))
    return [(random.choice(widths), random.choice(heights)) for _ in range(count)]


def test_every_screen_is_complete_at_the_smallest_and_the_largest_size(memory_pressure) -> None:
    resize_at_random(memory_pressure.run(40), [SMALLEST, LARGEST, *some_sizes(1, 4)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "scenario"), [("plain", "drafts"), ("ascii", "beams"), ("no colour", "samples")]
)
def test_every_screen_is_complete_at_any_size(kind, scenario, request, monkeypatch) -> None:
    if kind == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    stage = request.getfixturevalue(scenario).run(60)
    resize_at_random(stage, [*CORNERS, *some_sizes(len(kind), 20)], ascii=kind == "ascii")


def test_in_ascii_every_window_is_drawn_in_plain_characters(memory_pressure) -> None:
    app = app_for(memory_pressure.run(60), watch="Blocks → queue", ascii=True)

    async def script(pilot: Pilot) -> None:
        for keys in ("question_mark", "ctrl+p", "g", "slash", "5 tab up s"):
            await pilot.press(*keys.split())
            await until(pilot, lambda: len(app.screen_stack) > 1)
            await settle(pilot)
            shown = html.unescape(app.export_screenshot()).replace("\xa0", " ")
            assert shown.isascii(), keys
            await press(pilot, "escape")

    drive(app, script)
