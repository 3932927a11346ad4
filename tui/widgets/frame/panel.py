"""`Panel`: paints lines, and repaints only the lines that changed.

A subclass defines `lines`, a plain function of the model and the size. This class repaints the rows
that differ from the screen, handles the focus, the cursor and the mouse, and draws the selection in
reverse.

A panel is a single widget, because many are slow: drawing a map of a thousand blocks takes two
thirds of a processor core with a thousand widgets, but only a twentieth of a core with lines.
"""

from collections.abc import Iterable
from itertools import zip_longest
from typing import ClassVar, Self

from rich.segment import Segment
from rich.style import Style
from textual.color import TRANSPARENT
from textual.content import Content
from textual.events import Click, MouseScrollDown, MouseScrollUp, Resize
from textual.geometry import Region, Spacing
from textual.message import Message
from textual.reactive import Reactive
from textual.strip import Strip
from textual.style import Style as VisualStyle
from textual.timer import Timer
from textual.widget import Widget

from minivllm.tui.answers.why import why
from minivllm.tui.context import Context
from minivllm.tui.draw.lines import Line, highlight, targets_of, text_of, width_of
from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.draw.selection import Selection, Target
from minivllm.tui.draw.theme import Palette
from minivllm.tui.state.model import DashboardModel

_SECONDS_BETWEEN_LOOKS = 1 / 15
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
        self._title = ""
        self._soon: Timer | None = None
        self._palette = Palette(dark=True)
        self._gutter: Spacing | None = None
        self._ground: Style | None = None
        self._room: Style | None = None
        """The gutter, the panel's `rich_style`, and the style of what is empty: finding them takes
        longer than drawing a row."""
        self._styles: dict[str | tuple[str, str], Style] = {}
        """Style name, also with the action of a click -> the palette's style on that ground."""
        self._width = 0  # for which `_lines` were drawn
        self._changed: set[int] = set()
        """Rows of `_lines` that differ from the screen."""
        self._painted: tuple[Region, list[Strip], Strip] | None = None
        """The part that Textual asked for last, its rows, and one of them for its border."""

    # ---- for subclasses to define ----

    def title(self, model: DashboardModel, width: int) -> str:
        """The text in the top border."""
        return self.HELP_TITLE

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        """Draw at most `height` lines of at most `width` cells."""
        raise NotImplementedError

    def targets(self) -> list[Target]:
        """What can be selected in this panel now, in the order of the cursor.

        Like `target_at`, only called after a model was shown.
        """
        return targets_of(self._lines)

    def target_at(self, x: int, y: int) -> Target | None:
        """What can be selected at a place whose span has no target; found from the place alone."""
        return None

    # ---- drawing ----

    def show(self, model: DashboardModel) -> None:
        """Draw the model, and let Textual repaint the rows that changed."""
        self._model = model
        if not self.display or not self.is_attached:
            return
        gutter, whole = self.gutter, self.outer_size
        width, height = whole.width - gutter.width, whole.height - gutter.height
        if width <= 0:
            return
        self._width = width
        title = self.title(model, width)
        if not self.styles.border_left[0]:
            title = f" {title} "  # without corners, the border would touch the words
        if self.plain:
            title = to_ascii(title)
        # Of a folded panel, only the title is visible.
        new, old = self.lines(model, width, height) if height > 0 else [], self._lines
        if self.plain:
            new = [tuple((to_ascii(text), *look) for text, *look in line) for line in new]
        self._lines = new = [highlight(line, self.selection) for line in new]
        changed = {y for y, pair in enumerate(zip_longest(new, old)) if pair[0] != pair[1]}
        if title != self._title:
            self._title = title
            self._border_title = Content(title)  # `border_title` would repaint the whole panel
            changed.add(-gutter.top)
        if changed:
            self._changed |= changed
            # Whole rows, with the border: Textual would have to cut a part out of a row. Not by
            # `refresh`, which sends two messages for each panel.
            self._set_dirty(*(Region(-gutter.left, y, whole.width, 1) for y in changed))
            self.screen._dirty_widgets.add(self)
            self.screen.check_idle()

    def show_again(self) -> None:
        """Draw the last model again, after a change of the selection or size."""
        if self._model is not None:
            self.show(self._model)

    def show_soon(self) -> None:
        """Draw the last model again in a moment, because a search in it goes on."""
        if self.is_attached and self._soon is None:
            self._soon = self.set_timer(_SECONDS_BETWEEN_LOOKS, self._show_now)

    def _show_now(self) -> None:
        self._soon = None
        self.show_again()

    def restyle(self, palette: Palette) -> None:
        self._palette = palette
        self.notify_style_update()
        self.refresh()

    def notify_style_update(self) -> None:
        """Textual calls this when the style sheet gives the panel another background."""
        super().notify_style_update()
        self._styles.clear()
        self._gutter = self._ground = self._room = None

    @property
    def gutter(self) -> Spacing:
        self._gutter = self._gutter or super().gutter
        return self._gutter

    def on_resize(self, event: Resize) -> None:
        self.show_again()

    def refresh(self, *regions: Region, **more: bool) -> Self:
        """Repaint for another reason than changed rows, such as a new style."""
        self._painted = None
        return super().refresh(*regions, **more)

    def render_lines(self, crop: Region) -> list[Strip]:
        """Paint changed rows; Textual asks every panel whenever a row of any of them has changed."""
        top, right, bottom, left = self.gutter
        if self._painted is None or self._painted[0] != crop:
            rows = super().render_lines(crop)
            filtered = self.styles.opacity < 1 or self.app.no_color
            frame = rows[min(max(top - crop.y, 0), len(rows) - 1)]  # of a folded panel, the title
            self._painted = None if filtered else (crop, rows, frame)
        else:
            _, rows, frame = self._painted
            whole, height = self.outer_size.width, self.outer_size.height - top - bottom
            before, after = frame.crop(0, left), frame.crop(whole - right)
            for y in self._changed:
                at = y + top - crop.y
                if y < 0 <= at:  # the title
                    rows[at : at + 1] = super().render_lines(Region(crop.x, 0, crop.width, 1))
                elif 0 <= at < len(rows) and y < height:  # it was higher; now, the border is there
                    rows[at] = Strip([*before, *self._segments(y), *after], whole)
        self._changed.clear()
        return rows

    def render_line(self, y: int) -> Strip:
        """Textual calls this for each row to repaint, and adds the border."""
        return Strip(self._segments(y), self._width)

    def _segments(self, y: int) -> Iterable[Segment]:
        line = self._lines[y] if y < len(self._lines) else ()
        known = self._styles.get
        looks = [s[1] if len(s) == 2 or type(s[2]) is Target else s[1:] for s in line]
        styles = [known(look) or self._style(look) for look in looks]
        segments = list(map(Segment, [span[0] for span in line], styles))
        if self._room is None:
            self._room = VisualStyle(background=sum(self.background_colors, TRANSPARENT)).rich_style
        free = self._width - width_of(text_of(line))
        if free > 0:
            segments.append(Segment(" " * free, self._room))
        return segments if free >= 0 else Strip(segments, self._width - free).crop(0, self._width)

    def _style(self, look: str | tuple[str, str]) -> Style:
        name, *actions = [look] if isinstance(look, str) else look
        self._ground = self._ground or self.rich_style
        style = self._ground + self._palette.style(name)
        for action in actions:  # Textual runs it
            style += Style(meta={"@click": action})
        self._styles[look] = style
        return style

    @property
    def plain(self) -> bool:
        return self.context is not None and self.context.ascii

    # ---- choosing ----

    @property
    def selection(self) -> Selection:
        """The user's selection; an empty one for a panel without a context."""
        return Selection() if self.context is None else self.context.selection

    def move_cursor(self, by: int) -> bool:
        """Choose the next or previous target; False if there is none."""
        targets = [] if self._model is None else self.targets()
        if not targets:
            return False
        holds = self.selection.holds
        at = next((index for index, target in enumerate(targets) if holds(target)), None)
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
        elif (target := self._target_under(*offset)) is not None:
            self.post_message(self.Chosen(target, opened=event.chain > 1))

    def _target_under(self, x: int, y: int) -> Target | None:
        # From the place: a style for each target would cost more than to paint its text.
        line = self._lines[y] if 0 <= y < len(self._lines) else ()
        cells = [span[2:] for span in line for _ in range(width_of(span[0]))]
        found = [what for link in cells[x : x + 1] for what in link if isinstance(what, Target)]
        return found[0] if found else self._model and self.target_at(x, y)

    @property
    def tooltip(self) -> Content | None:
        """What is under the mouse. Textual reads this only after the mouse has rested a while."""
        if self._model is None or self.context is None or self.app.mouse_captured is not None:
            return None
        mouse, content = self.app.mouse_position, self.content_region
        offset, is_inside = mouse - content.offset, content.contains_point(mouse)
        if is_inside and (target := self._target_under(*offset)) is not None:
            said = why(self._model, target, is_race=self.context.behind is not None)
            text = f"{said}\n\nAs of step {self._model.fold.step:,}."
            text += " A double click opens its screen."
        elif offset.y < 0:
            text = f"{self.HELP_TEXT}\n\nA double click enlarges this panel, and restores it."
        elif not self.gutter.top and self.HELP_TEXT:
            text = self.HELP_TEXT  # of a panel without a title
        else:
            return None
        return Content(to_ascii(text) if self.plain else text)

    def on_mouse_scroll_down(self, event: MouseScrollDown) -> None:
        self.move_cursor(_ROWS_OF_WHEEL)

    def on_mouse_scroll_up(self, event: MouseScrollUp) -> None:
        self.move_cursor(-_ROWS_OF_WHEEL)
