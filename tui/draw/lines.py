"""Lines of styled text. Panels make them, tests read them, and `Panel` paints them.

    ("3 blocks", "hue3*!", block(12))   text; style hue3, bold, reverse; a click selects block 12
    ("quit ", "muted", "app.quit")      a click runs this action of Textual
    (" of ", "muted")                   a click does nothing

A line is a tuple of such spans. Style names are not colours: a line works in every theme. `Panel`
paints an action as the `meta` of a Rich style, where Textual looks for it.
"""

from collections.abc import Iterable
from itertools import groupby
from operator import itemgetter
from re import compile as compile_pattern

from rich.cells import cell_len, chop_cells

from minivllm.text import LONGEST_TEXT, clean, fit
from minivllm.tui.draw.selection import Selection, Target

Link = Target | str
"""What a click does: it selects a target, or it runs an action of Textual."""
Span = tuple[str, str] | tuple[str, str, Link]
"""(text, style name), and what a click on the text does"""
Line = tuple[Span, ...]


NARROW = compile_pattern("[ -~·…←-⇿─-◼]*")
"""Plain characters, arrows, lines and blocks: each takes one cell."""


def width_of(text: str) -> int:
    """The width of a text in cells; fast for the characters of which most text consists."""
    is_plain = text.isascii() and text.isprintable()
    return len(text) if is_plain or NARROW.fullmatch(text) else cell_len(text)


class Row:
    """Builds one line from left to right, at most `width` cells wide."""

    def __init__(self, width: int) -> None:
        self.room = max(width, 0)
        self._spans: list[Span] = []

    def put(
        self, text: str, style: str = "text", width: int | None = None, target: Link | None = None
    ) -> "Row":
        """Append `text`, padded or cut to `width` cells. A click on it selects `target`."""
        cells = width_of(text)
        if width is not None:
            room = min(width, self.room)
            if cells != room:
                text, cells = fit(text, room), max(room, 0)
        elif cells > self.room:
            text, cells = fit(text, self.room), self.room
        if text:
            self._spans.append((text, style) if target is None else (text, style, target))
            self.room -= cells
        return self

    def add(self, *spans: Span) -> "Row":
        """Append spans, as far as there is room."""
        for text, style, *link in spans:
            self.put(text, style, None, *link)
        return self

    def line(self) -> Line:
        return tuple(self._spans)


def line(width: int, *spans: Span) -> Line:
    return Row(width).add(*spans).line()


def text_of(a_line: Line) -> str:
    return "".join([span[0] for span in a_line])


def first_that_fits(width: int, *choices: Line) -> Line:
    """The first of `choices` that fits; if none fits, the last one, cut. Give the longest first."""
    for choice in choices:
        if cell_len(text_of(choice)) <= width:
            return choice
    return line(width, *choices[-1])


def flow(a_line: Line, width: int, indent: int) -> list[Line]:
    """The line in as many rows as it needs, broken at spaces; further rows are indented."""
    if cell_len(text_of(a_line)) <= width:
        return [a_line]
    rows = [Row(width)]
    for text, *look in a_line:
        for word in _WORDS.findall(text):
            if cell_len(word) > rows[-1].room:
                rows.append(Row(width).put("", width=min(indent, width // 2)))
                word = word.lstrip(" ")
            rows[-1].add((word, *look))
    return [joined(row.line()) for row in rows]


_WORDS = compile_pattern(" *[^ ]+| +$")


def packed(
    items: Iterable[Line],
    width: int,
    height: int,
    *,
    head: Line = (),
    gap: str = " ",
    total: int | None = None,
) -> list[Line]:
    """Whole items in at most `height` rows; the last row ends with how many do not fit.

    head: begins the first row; further rows are indented by its width
    total: the number of all items, if `items` are only those that may fit
    """
    if total is None:
        items = list(items)
        total = len(items)
    rows, beside = [Row(width).add(*head)], ""
    for number, item in enumerate(items):
        left, cells = total - number, width_of(text_of(item))
        if beside and cells + len(gap) > rows[-1].room and len(rows) < height:
            rows.append(Row(width).put("", width=width_of(text_of(head))))
            beside = ""
        if len(rows) >= height and (beside or left > 1):
            # In the last row, leave room for the number of hidden items, if any will be hidden.
            more = f"{gap}+ {left - 1:,} more" if left > 1 else ""
            if cells + len(beside + more) > rows[-1].room:
                rows[-1].put(f"{beside}+ {left:,} more", "muted")
                break
        rows[-1].put(beside).add(*item)
        beside = gap
    return [row.line() for row in rows]


def joined(a_line: Line) -> Line:
    """The line with neighbours of equal style in one span, which is cheaper to paint."""
    return tuple(
        (text_of(run), *look) for look, run in groupby(a_line, key=itemgetter(slice(1, None)))
    )


def targets_of(lines: list[Line]) -> list[Target]:
    """All targets in these lines, in reading order, each once."""
    links = (link for a_line in lines for span in a_line for link in span[2:])
    return list(dict.fromkeys(link for link in links if isinstance(link, Target)))


def highlight(a_line: Line, selection: Selection) -> Line:
    """The line with the selected spans in reverse.

    Words stay as they are: a reversed chip was written by the step, and the panel of a choice marks
    its token itself.
    """
    if selection.last is None:
        return a_line
    return tuple([_reversed(span) if _is_chosen(span, selection) else span for span in a_line])


def _is_chosen(span: Span, selection: Selection) -> bool:
    _, style, *link = span
    is_target = bool(link) and isinstance(link[0], Target) and link[0].kind != "token"
    return is_target and "=" not in style and selection.holds(link[0])


def _reversed(span: Span) -> Span:
    text, style, *link = span
    # A span that is already in reverse is highlighted by being drawn normally.
    return (text, style[:-1] if style.endswith("!") else style + "!", *link)


def wrap(text: str, width: int) -> list[str]:
    """Wrap `text` into rows of at most `width` cells, and drop control characters."""
    if width <= 0:
        return []
    return [row for part in text.split("\n") for row in _wrap_line(clean(part), width)]


def wrap_tail(text: str, width: int, height: int) -> list[str]:
    """The last `height` rows of the wrapped text, after an ellipsis if text is left out."""
    most = LONGEST_TEXT * max(-(-2 * width * height // LONGEST_TEXT), 1)
    cut = 0
    if len(text) > 2 * most:
        cut = (len(text) // most - 1) * most
    rows = wrap(text[cut:], width)
    if not cut and len(rows) <= height:
        return rows
    rows = rows[-height:] if height > 0 else []
    if rows and cell_len(rows[0]) >= width:  # without its first word, there is room
        rows[0] = rows[0][rows[0].find(" ") + 1 or 1 :]
    return [f"…{rows[0]}", *rows[1:]] if rows else []


def _wrap_line(text: str, width: int) -> list[str]:
    rows, row = [], ""
    for word in text.split(" "):
        longer = f"{row} {word}" if row else word
        if cell_len(longer) <= width:
            row = longer
            continue
        if row:
            rows.append(row)
        # Break a word that is wider than a row, a path behind a slash; drop a character that is.
        while cell_len(word) > width and (cut := chop_cells(word, width)[0].rfind("/") + 1):
            rows.append(word[:cut])
            word = word[cut:]
        pieces = [piece for piece in chop_cells(word, width) if cell_len(piece) <= width]
        *full, row = pieces or [""]
        rows += full
    return [*rows, row]
