"""`Panel`: paints lines, and repaints only the lines that changed.

A subclass defines `lines`, a plain function of the model and the size. This class repaints the rows
that differ from the screen, handles the focus, the cursor and the mouse, and draws the selection in
reverse.

A panel is a single widget, because many are slow: drawing a map of a thousand blocks takes two
thirds of a processor core with a thousand widgets, but only a twentieth of a core with lines.
"""

from itertools import zip_longest
from typing import ClassVar

from rich.segment import Segment
from rich.style import Style
from textual.content import Content
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.filter import ANSIToTruecolor
from textual.geometry import Offset, Region
from textual.message import Message
from textual.reactive import Reactive
from textual.strip import Strip
from textual.widget import Widget

from minivllm.tui.context import Context
from minivllm.tui.draw.lines import Line, Span, highlight, targets_of, text_of, width_of
from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.draw.selection import Selection, Target
from minivllm.tui.draw.theme import Palette
from minivllm.tui.state.model import DashboardModel

_SPANS_KEPT = 2048
_ROWS_KEPT = 256
"""Maximum number of painted rows in the cache; this is several screens."""
_TARGET = "target"
"""The name of a target in the `meta` of a painted style; Textual itself runs an `@click`."""
_ROWS_OF_WHEEL = 3
"""Rows for one notch of the mouse wheel."""


class Panel(Widget, can_focus=True):
    """Use `can_focus=False` if there is nothing to select or scroll."""

    HELP_TITLE: ClassVar[str] = ""
    HELP_TEXT: ClassVar[str] = ""
    """A few sentences about the panel, for the help."""
    RULE: ClassVar[str | None] = None
    """The engine function behind this panel, for the key s: `module:Class.function`."""
    KEYS: ClassVar[tuple[str, ...]] = ()
    """Ids of commands for the bottom line while the panel has the focus."""
    NEWEST_LAST: ClassVar[bool] = False
    """Whether the first ↑ or ↓ selects the last target; otherwise ↓ selects the first one."""
    auto_links = Reactive(False)
    """Textual would repaint a panel whenever the mouse moves to another target."""

    class Chosen(Message):
        """The user has selected a target. opened: also open the screen for this kind of target."""

        def __init__(self, target: Target, opened: bool) -> None:
            super().__init__()
            self.target = target
            self.opened = opened

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self.context: Context | None = None
        """Set by the app before the first frame."""
        self._model: DashboardModel | None = None
        self._lines: list[Line] = []
        self._strips: dict[int, Strip] = {}
        """Row number -> the row as painted on the screen, including the border."""
        self._painted: dict[Line, Strip] = {}
        """Line -> its painted row, to reuse when a list scrolls."""
        self._ends: tuple[list[Segment], list[Segment]] | None = None
        """Border and padding to the left and right of every row of content."""
        self._title = ""
        self._made_for: tuple[object, ...] = ()
        self.caches_rows = False
        """Whether the last picture came from `_strips`, and not from Textual's own cache."""
        self._palette = Palette(dark=True)
        self._styles: dict[str, Style] = {}
        self._segments: dict[Span, Segment] = {}

    # ---- for subclasses to define ----

    def title(self, model: DashboardModel, width: int) -> str:
        """The text in the top border."""
        return self.HELP_TITLE

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        """Draw at most `height` lines of at most `width` cells."""
        raise NotImplementedError

    def targets(self) -> list[Target]:
        """What can be selected in this panel now, in the order of the cursor."""
        return targets_of(self._lines)

    def target_at(self, x: int, y: int) -> Target | None:
        """What can be selected at a place whose span has no target; found from the place alone."""
        return None

    # ---- drawing ----

    def show(self, model: DashboardModel) -> None:
        if rows := self.redraw(model):
            self.refresh(*rows)

    def redraw(self, model: DashboardModel) -> list[Region]:
        """Draw the model, and return the rows that changed. The caller refreshes them."""
        self._model = model
        if not self.display or not self.is_attached:
            return []
        width, height = self.content_size
        if width <= 0 or height <= 0:
            return []
        title = self.title(model, width)
        if not self.styles.border_left[0]:
            title = f" {title} "  # without corners, the border would touch the words
        if self.plain:
            title = to_ascii(title)
        gutter, outer_width = self.gutter, self.outer_size.width
        top, left = gutter.top, gutter.left
        rows: list[Region] = []
        if title != self._title:
            self._title = title
            # A private attribute: `border_title` would repaint the whole panel.
            self._border_title = Content(title)
            self._strips.pop(0, None)
            # Textual keeps a border row until its own widget is refreshed.
            self._styles_cache.set_dirty(Region(0, 0, outer_width, 1))
            rows.append(Region(-left, -top, outer_width, 1))
        new, old = self.lines(model, width, height), self._lines
        if self.context is not None:
            new = [highlight(line, self.context.selection) for line in new]
        self._lines = new
        changed = [y for y, (one, other) in enumerate(zip_longest(new, old)) if one != other]
        for y in changed:
            self._strips.pop(y + top, None)
        # Refresh whole rows including the border, because whole rows are cached.
        rows += [Region(-left, y, outer_width, 1) for y in changed]
        return rows

    def show_again(self) -> None:
        """Draw the last model again, after a change of the selection or size."""
        if self._model is not None:
            self.show(self._model)

    def restyle(self, palette: Palette) -> None:
        self._palette = palette
        self.notify_style_update()
        self.refresh()

    def notify_style_update(self) -> None:
        """Repaint all rows. Textual calls this when the style sheet changes a panel's colours."""
        super().notify_style_update()
        self._styles.clear()
        self._segments.clear()
        self._forget_rows()

    def on_resize(self, event: Resize) -> None:
        self._forget_rows()
        self.show_again()

    def _forget_rows(self) -> None:
        self._strips.clear()
        self._painted.clear()
        self._ends = None

    def render_lines(self, crop: Region) -> list[Strip]:
        """Return cached rows: Textual's own method took half of a frame's time, for styles."""
        size = self.outer_size
        # Every app has the filter ANSIToTruecolor. It changes nothing here: our colours are exact.
        is_filtered = any(
            not isinstance(line_filter, ANSIToTruecolor) for line_filter in self.get_line_filters()
        )
        self.caches_rows = not (is_filtered or crop != size.region or self.styles.opacity < 1)
        if not self.caches_rows:
            return super().render_lines(crop)
        styles = self.styles
        made_for = size, styles.border, styles.background, styles.gutter
        if made_for != self._made_for:
            self._made_for = made_for
            self._forget_rows()
        missing = [y for y in range(size.height) if y not in self._strips]
        if missing:
            self._make_rows(missing)
        return [self._strips[y] for y in range(size.height)]

    def _make_rows(self, missing: list[int]) -> None:
        width, gutter = self.outer_size.width, self.gutter
        last = self.outer_size.height - gutter.bottom
        if self._ends is None:
            # Let Textual paint one row, and keep its left and right edges.
            edge_row = gutter.top if last > gutter.top else 0
            row = super().render_lines(Region(0, edge_row, width, 1))[0]
            self._ends = list(row.crop(0, gutter.left)), list(row.crop(width - gutter.right, width))
        left, right = self._ends
        if len(self._painted) > _ROWS_KEPT:
            self._painted.clear()
        for y in missing:
            if gutter.top <= y < last:
                line = self._line_at(y - gutter.top)
                row = self._painted.get(line)
                if row is None:
                    content = self._paint(line, width - gutter.width)
                    row = self._painted[line] = Strip([*left, *content, *right], width)
                self._strips[y] = row
            else:
                self._strips[y] = super().render_lines(Region(0, y, width, 1))[0]

    def render_line(self, y: int) -> Strip:
        width = self.content_size.width
        return Strip(self._paint(self._line_at(y), width), width)

    def _line_at(self, y: int) -> Line:
        return self._lines[y] if y < len(self._lines) else ()

    def _paint(self, line: Line, width: int) -> list[Segment]:
        known = self._segments.get
        segments = [known(span) or self._segment(span) for span in line]
        if self.plain:
            segments = [Segment(to_ascii(text), style) for text, style, _ in segments]
        room = width - width_of(text_of(line))
        if room < 0:
            return list(Strip(segments).crop(0, width))
        segments.append(Segment(" " * room, self._style("text")))
        return segments

    def _segment(self, span: Span) -> Segment:
        """The painted span, kept: most spans of a changed row are those of the row before."""
        if len(self._segments) > _SPANS_KEPT:
            self._segments.clear()
        text, name, *link = span
        style = self._style(name)
        if link:
            style += Style(meta={_TARGET if isinstance(link[0], Target) else "@click": link[0]})
        segment = self._segments[span] = Segment(text, style)
        return segment

    @property
    def plain(self) -> bool:
        return self.context is not None and self.context.ascii

    def _style(self, name: str) -> Style:
        """The palette's style on the panel's own background."""
        style = self._styles.get(name)
        if style is None:
            style = self._styles[name] = self.rich_style + self._palette.style(name)
        return style

    # ---- choosing ----

    def move_cursor(self, by: int) -> bool:
        """Choose the next or previous target; False if there is none."""
        targets = self.targets()
        if not targets:
            return False
        chosen = self.context.selection.holds if self.context is not None else lambda target: False
        at = next((index for index, target in enumerate(targets) if chosen(target)), None)
        first = 0 if by > 0 and not self.NEWEST_LAST else len(targets) - 1
        to = first if at is None else min(max(at + by, 0), len(targets) - 1)
        self.post_message(self.Chosen(targets[to], opened=False))
        return True

    async def on_click(self, event: Click) -> None:
        offset = event.get_content_offset(self)
        if offset is None:
            # The first click on a title has already given the panel the focus.
            if event.y == 0 and event.chain == 2 and self.has_focus:
                await self.run_action("app.command('look.maximize')")
        elif (target := self._target_under(event.style, offset)) is not None:
            self.post_message(self.Chosen(target, opened=event.chain > 1))

    def _target_under(self, painted: Style, offset: Offset) -> Target | None:
        return painted.meta.get(_TARGET) or self.target_at(*offset)

    @property
    def tooltip(self) -> Content | None:
        """What is under the mouse. Textual reads this only after the mouse has rested a while."""
        if self._model is None or self.context is None or self.app.mouse_captured is not None:
            return None
        mouse, content = self.app.mouse_position, self.content_region
        offset, is_inside = mouse - content.offset, content.contains_point(mouse)
        painted = self.screen.get_style_at(*mouse)
        if is_inside and (target := self._target_under(painted, offset)) is not None:
            from minivllm.tui.answers.why import why  # late, for the first frame needs no answers

            selection = Selection()
            selection.choose(target)
            text = f"{why(self._model, selection)}\n\nAs of step {self._model.fold.step:,}."
            text += " A double click opens its screen."
        elif offset.y < 0:
            text = f"{self.HELP_TEXT}\n\nA double click enlarges this panel, and restores it."
        elif not self.gutter.top and self.HELP_TEXT:
            text = self.HELP_TEXT  # of a panel without a title
        else:
            return None
        return Content(to_ascii(text) if self.plain else text)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        self.scroll_rows(_ROWS_OF_WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self.scroll_rows(-_ROWS_OF_WHEEL)

    def scroll_rows(self, by: int) -> None:
        """The mouse wheel: by default, it moves the cursor."""
        self.move_cursor(by)
