"""A line of a panel as plain data: pieces of text, each with the name of a style.

Panels are functions from the model to lines, so they can be tested without a screen, and two frames
can be compared row by row. Names of styles, not colours, stand here: the same line is drawn right in
every theme. A name may end in `*` (bold) and `!` (reverse).
"""

from rich.cells import cell_len

from minivllm.tui.text import fit

Span = tuple[str, str]
"""(text, style name)."""
Line = tuple[Span, ...]


class Row:
    """Builds one line from left to right and never grows wider than `width` cells."""

    def __init__(self, width: int) -> None:
        self.room = max(width, 0)
        """Cells left."""
        self._spans: list[Span] = []

    def put(self, text: str, style: str = "text", width: int | None = None) -> "Row":
        """Add `text`; with `width`, padded or cut to exactly that many cells."""
        if width is not None:
            text = fit(text, min(width, self.room))
        elif cell_len(text) > self.room:
            text = fit(text, self.room)
        if text:
            self._spans.append((text, style))
            self.room -= cell_len(text)
        return self

    def line(self) -> Line:
        return tuple(self._spans)


def line(width: int, *spans: Span) -> Line:
    """A line of these spans, cut at `width` cells."""
    row = Row(width)
    for text, style in spans:
        row.put(text, style)
    return row.line()


def text_of(a_line: Line) -> str:
    """The characters of a line."""
    return "".join(text for text, _ in a_line)


def first_that_fits(width: int, *choices: Line) -> Line:
    """The first of `choices` (longest first) that fits whole; the last one, cut, if none does."""
    for choice in choices:
        if cell_len(text_of(choice)) <= width:
            return choice
    return line(width, *choices[-1])
