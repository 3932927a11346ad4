"""Lines of styled text: what panels make and tests read, before anything is painted.

A line is a tuple of spans, so that panels are plain functions that can be tested without a screen,
and two frames can be compared row by row. Names of styles, not colours, stand here: the same line
is drawn right in every theme. A name may end in `*` (bold) and `!` (reverse), and then in `@` and
what a click there chooses (`selection.Target`): `hue3*@block:12`.
"""

from rich.cells import cell_len

from minivllm.text import fit
from minivllm.tui.draw.selection import Selection, Target

Span = tuple[str, str]
"""(text, style name)."""
Line = tuple[Span, ...]


class Row:
    """Builds one line from left to right and never grows wider than `width` cells."""

    def __init__(self, width: int) -> None:
        self.room = max(width, 0)
        """Cells left."""
        self._spans: list[Span] = []

    def put(
        self, text: str, style: str = "text", width: int | None = None, target: Target | None = None
    ) -> "Row":
        """Add `text`; with `width`, padded or cut to exactly that many cells; `target`: what it
        stands for.
        """
        if width is not None:
            text = fit(text, min(width, self.room))
        elif cell_len(text) > self.room:
            text = fit(text, self.room)
        if text:
            self._spans.append((text, style if target is None else f"{style}@{target}"))
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


def target_of(style: str) -> Target | None:
    """What a span of this style stands for."""
    _, at, target = style.partition("@")
    return Target.parse(target) if at else None


def targets_of(lines: list[Line]) -> list[Target]:
    """Everything that can be chosen in these lines, in reading order, each once."""
    found = (target_of(style) for a_line in lines for _, style in a_line)
    return list(dict.fromkeys(target for target in found if target is not None))


def target_at(a_line: Line, x: int) -> Target | None:
    """What stands at cell `x` of a line."""
    for text, style in a_line:
        x -= cell_len(text)
        if x < 0:
            return target_of(style)
    return None


def highlight(a_line: Line, selection: Selection) -> Line:
    """The line with what is chosen in reverse."""
    if selection.last is None or not any("@" in style for _, style in a_line):
        return a_line
    return tuple(
        (text, _reversed(style) if _is_chosen(style, selection) else style)
        for text, style in a_line
    )


def _is_chosen(style: str, selection: Selection) -> bool:
    target = target_of(style)
    return target is not None and selection.holds(target)


def _reversed(style: str) -> str:
    name, at, target = style.partition("@")
    # What is in reverse already stays apart from its neighbours by going back.
    return (name.removesuffix("!") if name.endswith("!") else name + "!") + at + target
