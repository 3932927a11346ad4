"""`LessonText`: the text of a lesson's page, its checked claims, its question, and the keys.

On a small terminal, the title is left out first, then the claims and the engine, and the rest
scrolls above the keys.
"""

from itertools import groupby
from re import compile as pattern

from rich.cells import cell_len

from minivllm.text import clean
from minivllm.tui.draw.lines import Line, Row, line, wrap
from minivllm.tui.lesson import LessonControl, Page
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.sentences import Scrolled

_MARKED = pattern(r"\*\*(.+?)\*\*|`(.+?)`")


class LessonText(Scrolled):
    HELP_TITLE = "Lesson"
    HELP_TEXT = (
        "The text of the lesson. It explains the bright panel beside it. All panels show the"
        " lesson's engine, and all keys of the dashboard work here: step through time with the"
        " arrows, select items, ask why. A click on an answer chooses it, a second click gives it."
        " ↓ scrolls a text that ends with …."
    )

    def __init__(self, lesson: LessonControl, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._lesson = lesson
        self.typed = ""
        """The digits of the answer so far."""
        self.trouble = ""
        """Why the last key did nothing."""
        self.busy = False

    def title(self, model: DashboardModel, width: int) -> str:
        right, answered = self._lesson.score
        score = f"  {right} of {answered} right" if answered else ""
        number, num_pages = self._lesson.page.number, self._lesson.num_pages
        total = f" of {num_pages}" if number <= num_pages else ""
        return f"Page {number}{total}{score}"

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        page = self._lesson.page
        said, keys = _said(page, self.typed, width), self._keys(page, width)
        title = _hanging("", self._lesson.title, "accent*", "accent*", width)
        engine = _hanging("engine: ", page.engine, "muted", "accent", width) if page.engine else []
        claims = [
            row
            for claim in page.claims
            for row in _hanging("✓ ", f"checked: {claim}", "good", "muted", width)
        ]
        if page.figure:
            said += _figure(page, width, height - len(said) - len(keys) - 2)
        room = max(height - len(said) - len(keys) - 1, 0)
        parts = ([*title, *engine], claims), (engine, claims), (engine,), ()
        rows = next(rows for rows in map(_spaced, parts) if len(rows) <= room) + said
        gap = max(height - len(rows) - len(keys), 0)
        return [*self.window(rows, width, height - len(keys)), *[()] * min(gap, 1), *keys][:height]

    def _keys(self, page: Page, width: int) -> list[Line]:
        rows: list[Line] = []
        if self.trouble:
            rows += _hanging("", self.trouble, "warn", "warn", width)
        if self.busy:
            return [*rows, line(width, ("The engine is running ...", "muted"))]
        if page.waits:
            click = " or click" if page.choices else ""
            unit = f" {page.unit}s" if page.unit.isalpha() else f" {page.unit}"
            guess = ("Your guess: ", "accent*"), (self.typed, "text*"), (" ", "text!")
            hint = (f"type{click} it, then enter", "muted")
            return [*rows, line(width, *guess, (unit, "muted")), line(width, hint)]
        ends = page.last and self._lesson.at_newest
        hints = (f"space {'next lesson' if ends else 'go on'}   b back", "1-7 dashboard   0 here")
        return [*rows, *(line(width, (hint, "muted")) for hint in hints)]


def _spaced(parts: tuple[list[Line], ...]) -> list[Line]:
    """The rows of all parts, with an empty row after each."""
    return [row for part in parts if part for row in (*part, ())]


def _figure(page: Page, width: int, room: int) -> list[Line]:
    """The figure, or how much larger the terminal must be for it: half a figure says nothing."""
    rows, columns = len(page.figure) - room, max(map(cell_len, page.figure)) - width
    if rows <= 0 and columns <= 0:
        return [(), *(line(width, (row, "accent")) for row in page.figure)]
    missing = f"{rows} more rows" if rows > 0 else f"{columns} more columns"
    return _hanging(
        "", f"There is a drawing here, in a terminal with {missing}.", "warn", "warn", width
    )


def _said(page: Page, typed: str, width: int) -> list[Line]:
    if page.right is not None:
        sign, style = ("✓ ", "good*") if page.right else ("✗ ", "bad*")
    else:
        sign, style = ("? ", "accent*") if page.asks else ("", "text")
    lines = _marked(page.text, sign, style, width)
    for number, choice in enumerate(page.choices, 1):
        chosen, action = "!" if typed == str(number) else "", f"screen.guess('{number}')"
        looks = f"accent*{chosen}", f"text{chosen}"
        lines += _hanging(f"{number} ", choice, *looks, width, action)
    if page.given:
        lines += _hanging("your guess: ", page.given, "muted", "text", width)
    return lines


def _hanging(
    sign: str, text: str, sign_style: str, style: str, width: int, action: str | None = None
) -> list[Line]:
    beside = " " * cell_len(sign)
    return [
        Row(width)
        .put(beside if y else sign, sign_style, None, action)
        .put(row, style, None, action)
        .line()
        for y, row in enumerate(wrap(text, width - cell_len(sign)))
    ]


def _marked(text: str, sign: str, sign_style: str, width: int) -> list[Line]:
    """A sign, with marked-up text wrapped to the right of the sign.

    Each character gets a style before wrapping; then the list of styles is cut as the text was.
    """
    styles: list[tuple[str, str]] = []
    at = 0
    for match in _MARKED.finditer(text):
        styles += [(character, "text") for character in clean(text[at : match.start()])]
        style = "text*" if match[1] else "accent"
        styles += [(character, style) for character in clean(match[1] or match[2])]
        at = match.end()
    styles += [(character, "text") for character in clean(text[at:])]
    lines, used = [], 0
    for y, row in enumerate(
        wrap("".join(character for character, _ in styles), width - cell_len(sign))
    ):
        line = Row(width).put(sign if y == 0 else " " * cell_len(sign), sign_style)
        # A line break can drop a space: skip its style, up to the row's first character.
        while used < len(styles) and row and styles[used][0] != row[0]:
            used += 1
        for style, part in groupby(styles[used : used + len(row)], key=lambda pair: pair[1]):
            line.put("".join(character for character, _ in part), style)
        used += len(row)
        lines.append(line.line())
    return lines
