"""A page of a lesson as a picture: the panels of the dashboard's lesson screen at that moment.

The real screen is drawn in this process from the lesson's recording, but without the keys, the time
line and the text, which is beside the picture. No panel is dimmed.
"""

import asyncio
from itertools import pairwise
from typing import Any, NamedTuple

from minivllm.lessons.course.course import VIEWS
from minivllm.lessons.teacher.words import standing_at
from minivllm.text import plural, short_name
from minivllm.tui.app import DashboardApp
from minivllm.tui.context import Context
from minivllm.tui.draw.portable import standalone
from minivllm.tui.lesson import Page
from minivllm.tui.panels import picture
from minivllm.tui.widgets.blocks.xray import XRay

COLUMNS = 88
_FEWEST_ROWS, _MOST_ROWS = 12, 30
_ROWS_OF_MAP, _MOST_ROWS_OF_SLOTS = 6, 5
"""Height of these two panels, in rows with the title, beside the highlighted panel."""
_MOST_NAMES = 6
_ALL_TILES = 1_000_000
"""More tiles than any kernel has: moving by this number takes the x-ray to its end."""


class Words(NamedTuple):
    alt: str
    caption: str
    moment: str


class _Still:
    """A `LessonControl` that stays at one page."""

    title = ""
    num_pages = 0
    at_newest = False
    """If False, the screen jumps to the page's position and does not play the steps before it."""
    score = (0, 0)

    def __init__(self, page: Page) -> None:
        self.page = page

    def forward(self) -> None:
        """There is no other page."""

    def back(self) -> None:
        """There is no other page."""

    def answer(self, typed: str) -> None:
        """No answer is possible."""


class _Lent:
    """A source that stays open when an app closes it on exit: the next picture needs it too."""

    def __init__(self, source: Any) -> None:
        self._source = source

    def __getattr__(self, name: str) -> Any:
        return getattr(self._source, name)

    def close(self) -> None:
        """Do nothing: the lesson closes its source."""


def draw(page: Page, title: str) -> str:
    """Draw a page that has a highlighted panel, as an SVG."""
    context = standing_at(page)
    step = context.transport.view.fold.step
    return asyncio.run(_draw(page, _rows(page, context), f"{title}, step {step}"))


def picture_words(page: Page) -> Words:
    fold = standing_at(page).transport.view.fold
    when = "Before the first step" if fold.step == 0 else f"Step {fold.step}"
    which = f" of the engine “{page.engine}”" if page.engine else ""
    panel = VIEWS[page.focus].name
    return Words(
        alt=(
            f"The dashboard at step {fold.step}. Running: {_names(fold.running)}. Waiting:"
            f" {_names(fold.waiting)}. {sum(block.ref_cnt > 0 for block in fold.blocks)} of"
            f" {plural(len(fold.blocks), 'block')} in use. The panel {panel} is highlighted."
        ),
        caption=f"{when}{which}. Highlighted: {panel}.",
        moment=f"{when}{which}",
    )


def _rows(page: Page, context: Context) -> int:
    def of(panel: Any) -> int:
        rows = picture(panel, context, COLUMNS - 2, _MOST_ROWS)
        # Of the empty rows above a legend at the panel's foot, count only one.
        return sum(bool(row or above) for above, row in pairwise(["", *rows]))

    slots = of("slots") if page.focus == "slots" else min(of("slots"), _MOST_ROWS_OF_SLOTS)
    blocks = of("blockmap") if page.focus == "blockmap" else _ROWS_OF_MAP
    lit = 0 if page.focus in ("slots", "blockmap") else of(page.focus)
    # If the panel Slots is highlighted, the screen gives it at most half of the rows.
    enough = max(slots + blocks + lit + 1, 2 * slots if page.focus == "slots" else 0)
    return min(max(enough, _FEWEST_ROWS), _MOST_ROWS)


async def _draw(page: Page, rows: int, title: str) -> str:
    app = DashboardApp(_Lent(page.stage.source), lesson=_Still(page), state="paused")
    async with app.run_test(size=(COLUMNS, rows)) as pilot:
        for widget in app.screen.query("#header, #timeline, #lesson-text, Footer"):
            widget.display = False
        for panel in app.screen.query(".-dim"):
            panel.remove_class("-dim")
        await pilot.pause()
        app.draw()
        for xray in app.screen.query(XRay):
            xray.move_cursor(_ALL_TILES)
        await pilot.pause()
        return standalone(app.export_screenshot(title=title))


def _names(seq_ids: list[str]) -> str:
    if len(seq_ids) > _MOST_NAMES:
        return plural(len(seq_ids), "sequence")
    return ", ".join(map(short_name, seq_ids)) or "none"
