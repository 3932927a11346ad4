"""A page of a lesson as text: what the terminal and the transcript share.

Pictures are drawn at the page's own position in the recording.
"""

import re
from itertools import pairwise

from minivllm.text import clean
from minivllm.tui.context import Context
from minivllm.tui.lesson import Page
from minivllm.tui.panels import picture
from minivllm.tui.time.transport import Transport

WIDTH = 78
PICTURE_HEIGHT = 12
_MARKS = re.compile(r"\*\*(.+?)\*\*|`(.+?)`")


def without_marks(text: str) -> str:
    """A chunk's text without Markdown's stars and back quotes."""
    return _MARKS.sub(lambda match: match[1] or match[2], text)


def standing_at(page: Page) -> Context:
    """What a panel needs to draw this page's moment. The page must have a stage."""
    transport = Transport(page.stage.source)
    while page.stage.source.poll(1.0):
        pass
    transport.to_position(page.position)
    context = Context(transport)
    if page.chosen is not None:
        context.selection.choose(page.chosen)
    return context


def page_picture(page: Page) -> list[str]:
    """The highlighted panel at the page's moment; empty if there is none, or no event yet."""
    if page.stage is None or page.focus is None or page.position == 0:
        return []
    context = standing_at(page)
    rows = [clean(row) for row in picture(page.focus, context, WIDTH - 2, PICTURE_HEIGHT)]
    # Keep one empty row above a legend at the panel's foot.
    return [row for above, row in pairwise(["", *rows]) if row or above]
