"""Every screen at any size from 40x12 to 300x80, resized again and again."""

from itertools import cycle
from random import Random

import pytest
from msgspec.structs import replace
from support.tui.driven_app import SCREENS, all_drawn, app_for, drive, settle, source_of
from support.tui.places import check_that_everything_has_its_place
from support.tui.shown import SCENARIOS
from textual.pilot import Pilot

from minivllm.events import types as ev
from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.draw.selection import block, sequence
from minivllm.tui.screens.base import SMALLEST

LARGEST = (300, 80)
CORNERS = [SMALLEST, LARGEST, (SMALLEST[0], LARGEST[1]), (LARGEST[0], SMALLEST[1])]


def resize_at_random(stage, sizes: list[tuple[int, int]], *, ascii: bool = False) -> None:
    """Show every screen at several of the sizes, each time at another moment of the run."""
    random = Random(len(sizes))
    app = app_for(stage, watch="Blocks are shared.", other=source_of(stage), ascii=ascii)

    async def script(pilot: Pilot) -> None:
        for number, size in enumerate(sizes):
            name = SCREENS[number % len(SCREENS)]
            await pilot.resize_terminal(*random.choice([(9, 3), (39, 12), (40, 11), *CORNERS]))
            await pilot.press(str(SCREENS.index(name) + 1))
            await pilot.resize_terminal(*size)
            transport = app.context.transport
            transport.to_position(random.randrange(len(transport.recording) + 1))
            for target in (block(random.randrange(8)), sequence("r1.0")):
                app.context.selection.choose(target)
            app.draw()
            await settle(pilot)
            check_that_everything_has_its_place(app, size)
            rows = app.screen._compositor.render_strips()
            assert [row.cell_length for row in rows] == [size[0]] * size[1], (name, size)
            assert not ascii or to_ascii(all_drawn(app)) == all_drawn(app)

    drive(app, script, SMALLEST)


def some_sizes(seed: int, count: int) -> list[tuple[int, int]]:
    random = Random(seed)
    widths, heights = (range(low, high + 1) for low, high in zip(SMALLEST, LARGEST, strict=True))
    return [(random.choice(widths), random.choice(heights)) for _ in range(count)]


def without_words(stage):
    """The stage as an old recording: no words, no sampling parameters."""
    stage.events = [
        replace(event, sampling=None) if isinstance(event, ev.RequestArrived) else event
        for event in stage.events
        if type(event) is not ev.TokensNamed
    ]
    return stage


def test_every_screen_is_complete_at_the_smallest_and_the_largest_size(memory_pressure) -> None:
    resize_at_random(memory_pressure.run(40), [SMALLEST, LARGEST, *some_sizes(1, 4)])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "scenario"),
    list(zip(cycle(("plain", "ascii", "no colour", "no words")), reversed(SCENARIOS))),
)
def test_every_screen_is_complete_at_any_size(
    kind: str, scenario: str, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "no colour":
        monkeypatch.setenv("NO_COLOR", "1")
    stage = request.getfixturevalue(scenario).run(60)
    stage = without_words(stage) if kind == "no words" else stage
    sizes = [*CORNERS, *some_sizes(len(scenario + kind), 20)]
    resize_at_random(stage, sizes, ascii=kind == "ascii")
