"""Lines of styled text. Panels make them, tests read them, and `Panel` paints them.

    ("3 blocks", "hue3*!@block:12")     text; style hue3, bold, reverse; a click selects block 12
    ("hits ", "muted@do:app.quit")      a click runs this action of Textual

A line is a tuple of such spans. Style names are not colours: a line works in every theme.
"""

from itertools import groupby
from operator import itemgetter
from re import compile as compile_pattern

from rich.cells import cell_len

from minivllm.text import fit
from minivllm.tui.draw.selection import Selection, Target

Span = tuple[str, str]
"""(text, style name)"""
Line = tuple[Span, ...]


NARROW = compile_pattern("[ -~·…←-⇿─-◼]*")
"""Plain characters, arrows, lines and blocks: each takes one cell."""


def width_of(text: str) -> int:
    """The width of a text in cells; fast for the characters of which most text consists."""
    return len(text) if NARROW.fullmatch(text) else cell_len(text)


class Row:
    """Builds one line from left to right, at most `width` cells wide."""

    def __init__(self, width: int) -> None:
        self.room = max(width, 0)
        self._spans: list[Span] = []

    def put(
        self, text: str, style: str = "text", width: int | None = None, target: Target | None = None
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
            self._spans.append((text, style if target is None else f"{style}@{target}"))
            self.room -= cells
        return self

    def line(self) -> Line:
        return tuple(self._spans)


def line(width: int, *spans: Span) -> Line:
    row = Row(width)
    for text, style in spans:
        row.put(text, style)
    return row.line()


def text_of(a_line: Line) -> str:
    return "".join(text for text, _ in a_line)


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
    for text, style in a_line:
        for word in _WORDS.findall(text):
            if cell_len(word) > rows[-1].room:
                rows.append(Row(width).put("", width=min(indent, width // 2)))
                word = word.lstrip(" ")
            rows[-1].put(word, style)
    return [joined(row.line()) for row in rows]


_WORDS = compile_pattern(" *[^ ]+| +$")


def joined(a_line: Line) -> Line:
    """The line with neighbours of equal style in one span, which is cheaper to paint."""
    return tuple(
        ("".join(text for text, _ in run), style)
        for style, run in groupby(a_line, key=itemgetter(1))
    )


def target_of(style: str) -> Target | None:
    _, at, target = style.partition("@")
    return Target.parse(target) if at else None


def targets_of(lines: list[Line]) -> list[Target]:
    """All targets in these lines, in reading order, each once."""
    found = (target_of(style) for a_line in lines for _, style in a_line)
    return list(dict.fromkeys(target for target in found if target is not None))


def style_at(a_line: Line, x: int) -> str:
    """The style in column `x`; empty to the right of the line."""
    for text, style in a_line:
        x -= cell_len(text)
        if x < 0:
            return style
    return ""


def doing(style: str, action: str) -> str:
    """The style of text that runs an action of Textual when the user clicks on it."""
    return f"{style}@{_ACTION}{action}"


def action_of(style: str) -> str | None:
    _, _, action = style.partition(f"@{_ACTION}")
    return action or None


_ACTION = "do:"


def highlight(a_line: Line, selection: Selection) -> Line:
    """The line with the selected spans in reverse.

    Words stay as they are: a reversed chip was written by the step, and the panel of a choice marks
    its token itself.
    """
    if selection.last is None or not any("@" in style for _, style in a_line):
        return a_line
    return tuple(
        (text, _reversed(style) if _is_chosen(style, selection) else style)
        for text, style in a_line
    )


def _is_chosen(style: str, selection: Selection) -> bool:
    target = target_of(style)
    if target is None or target.kind == "token" or "=" in style.partition("@")[0]:
        return False
    return selection.holds(target)


def _reversed(style: str) -> str:
    name, at, target = style.partition("@")
    # A span that is already in reverse is highlighted by being drawn normally.
    return (name.removesuffix("!") if name.endswith("!") else name + "!") + at + target
