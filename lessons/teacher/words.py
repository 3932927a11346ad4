"""A page of a lesson in words: what the terminal and the transcript have in common.

Knows pages and nothing of how they came about. The easy thing to get wrong is to draw a page too
late: the picture is of the moment at hand, so it must be made when the page is opened, or by the
page's own place in the recording.
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
    """A chunk's text without the stars and back quotes of Markdown."""
    return _MARKS.sub(lambda match: match[1] or match[2], text)


def standing_at(page: Page) -> Context:
    """What a panel needs to draw a page's own moment. The page has a stage."""
    transport = Transport(page.stage.source)
    while page.stage.source.poll(1.0):
        pass
    transport.to_position(page.position)
    context = Context(transport)
    if page.chosen is not None:
        context.selection.choose(page.chosen)
    return context


def page_picture(page: Page) -> list[str]:
    """The lit panel at the page's own moment; nothing where none is lit or nothing has happened
    yet.
    """
    if page.stage is None or page.focus is None or page.position == 0:
        return []
    context = standing_at(page)
    rows = [clean(row) for row in picture(page.focus, context, WIDTH - 2, PICTURE_HEIGHT)]
    # A panel may put its legend at its foot: one empty row is enough to keep it apart.
    return [row for above, row in pairwise(["", *rows]) if row or above]
