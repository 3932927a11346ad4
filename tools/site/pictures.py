"""A page of a lesson as a picture: the panels of the dashboard's lesson screen at that moment.

The real screen is drawn from the lesson's recording, but without the keys, the time line and the
text, which is beside the picture. No panel is dimmed.
"""

import asyncio
from itertools import pairwise
from types import SimpleNamespace

from minivllm.lessons.course.course import VIEWS
from minivllm.lessons.teacher.words import standing_at
from minivllm.text import plural, short_name
from minivllm.tui.app import DashboardApp
from minivllm.tui.context import Context
from minivllm.tui.draw.portable import standalone
from minivllm.tui.lesson import Page, PanelName
from minivllm.tui.panels import picture
from minivllm.tui.widgets.blocks.xray import XRay

COLUMNS = 88
_FEWEST_ROWS, _MOST_ROWS = 12, 30
_ROWS_OF_MAP, _MOST_ROWS_OF_SLOTS = 6, 5
"""Height of these two panels, in rows with the title, beside the highlighted panel."""
_ALL_TILES = 1_000_000
"""More tiles than any kernel has: moving by this number takes the x-ray to its end."""


def draw(page: Page, title: str) -> str:
    """Draw a page that has a highlighted panel, as an SVG."""
    context = standing_at(page)
    step = context.transport.view.fold.step
    return asyncio.run(_draw(page, _rows(page, context), f"{title}, step {step}"))


def words(page: Page) -> tuple[str, str]:
    """What the picture shows, for readers who cannot see it; and its moment."""
    fold = standing_at(page).transport.view.fold
    when = "Before the first step" if fold.step == 0 else f"Step {fold.step}"
    which = f" of the engine “{page.engine}”" if page.engine else ""
    return (
        f"The dashboard at step {fold.step}. Running: {_names(fold.running)}. Waiting:"
        f" {_names(fold.waiting)}. {sum(block.ref_cnt > 0 for block in fold.blocks)} of"
        f" {plural(len(fold.blocks), 'block')} in use. The panel {VIEWS[page.focus].name} is"
        " highlighted."
    ), f"{when}{which}"


def _names(seq_ids: list[str]) -> str:
    if len(seq_ids) > 6:
        return plural(len(seq_ids), "sequence")
    return ", ".join(map(short_name, seq_ids)) or "none"


def _rows(page: Page, context: Context) -> int:
    def of(panel: PanelName) -> int:
        rows = picture(panel, context, COLUMNS - 2, _MOST_ROWS)
        # Of the empty rows above a legend at the panel's foot, count only one.
        return sum(bool(row or above) for above, row in pairwise(["", *rows]))

    match page.focus:
        case "slots":  # the screen gives it at most half of the rows
            rows = max(of("slots") + _ROWS_OF_MAP + 1, 2 * of("slots"))
        case "blockmap":
            rows = min(of("slots"), _MOST_ROWS_OF_SLOTS) + of("blockmap") + 1
        case panel:
            rows = min(of("slots"), _MOST_ROWS_OF_SLOTS) + _ROWS_OF_MAP + of(panel) + 1
    return min(max(rows, _FEWEST_ROWS), _MOST_ROWS)


async def _draw(page: Page, rows: int, title: str) -> str:
    source = page.stage.source
    source.close = lambda: None  # an app closes its source, but the next picture needs it
    still = SimpleNamespace(page=page, title="", num_pages=0, at_newest=False, score=(0, 0))
    app = DashboardApp(source, lesson=still, state="paused")
    async with app.run_test(size=(COLUMNS, rows)) as pilot:
        for widget in app.screen.query("#header, #timeline, #lesson-text, #keybar"):
            widget.display = False
        for panel in app.screen.query(".-dim"):
            panel.remove_class("-dim")
        await pilot.pause()
        await app.screen.wait_for_refresh()
        app.draw()
        for xray in app.screen.query(XRay):
            xray.move_cursor(_ALL_TILES)
        await pilot.pause()
        return standalone(app.export_screenshot(title=title))
