"""A page of a lesson as text. The plain terminal and the transcript share this code.

Pictures are drawn at the page's own position in the recording.
"""

import re
from itertools import pairwise

from minivllm import tui
from minivllm.text import clean
from minivllm.tui.context import Context
from minivllm.tui.lesson import Page
from minivllm.tui.time.transport import Transport

WIDTH = 78
PICTURE_HEIGHT = 12
_MARKS = re.compile(r"\*\*(.+?)\*\*|`(.+?)`")


def without_marks(text: str) -> str:
    """A chunk's text without Markdown's stars and back quotes."""
    return _MARKS.sub(lambda match: match[1] or match[2], text)


def standing_at(page: Page) -> Context:
    """The context to draw a panel at this page's moment. The page must have a stage."""
    transport = Transport(page.stage.source)
    while page.stage.source.poll(1.0):
        pass
    transport.to_position(page.position)
    context = Context(transport)
    if page.chosen is not None:
        context.selection.choose(page.chosen)
    return context


def page_picture(page: Page) -> list[str]:
    """The highlighted panel at the page's moment; empty without such a panel or any event."""
    if page.stage is None or page.focus is None or page.position == 0:
        return []
    context = standing_at(page)
    rows = [clean(row) for row in tui.picture(page.focus, context, WIDTH - 2, PICTURE_HEIGHT)]
    # Of the empty rows above a legend at the panel's foot, keep only one.
    return [row for above, row in pairwise(["", *rows]) if row or above]
