"""Panels with plain sentences: what to try, and the summary at the end of a run."""

from textual.geometry import Size

from minivllm.text import clean
from minivllm.tui.context import RunSummary
from minivllm.tui.draw.lines import Line, Row, flow, line, width_of, wrap
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_STYLES = ("good*", "accent*", "warn*")
"""Of the figures at the end of a run."""

_NEXT = (
    ("race.start", "race it against static batching"),
    ("screen.choice", "how a word was chosen"),
    ("app.quit", "leave"),
)
"""(command id, what it does), at the end of a run."""
_AFTER = "Next: minivllm lesson 0"


class Scrolled(Panel):
    """A panel whose text scrolls where it has too few rows."""

    first_row = num_hidden = 0

    def window(self, rows: list[Line], width: int, height: int) -> list[Line]:
        """The rows from `first_row` on; an ellipsis says that there are more."""
        self.num_hidden = max(len(rows) - height, 0)
        self.first_row = min(max(self.first_row, 0), self.num_hidden)
        shown = rows[self.first_row : self.first_row + max(height, 0)]
        if shown and self.first_row < self.num_hidden:
            shown[-1] = line(width, *line(width - 1, *shown[-1]), ("…", "muted"))
        return shown

    def scroll_rows(self, by: int) -> bool:
        """Scroll, a page at most; return whether not all rows fit."""
        page = max(self.content_size.height - 3, 1)
        self.first_row += min(max(by, -page), page)
        self.show_again()
        return self.num_hidden > 0


class Sentences(Scrolled, can_focus=False):
    """A panel that is as high as what it says."""

    def rows(self, width: int) -> list[Line]:
        raise NotImplementedError

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        return self.window(self.rows(width), width, height)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.rows(width))


class Notice(Sentences, can_focus=False):
    HELP_TITLE = "Notice"
    HELP_TEXT = "What the dashboard says, or the answer to w. A click or esc closes it."
    _said: tuple[tuple[str, str], ...] = ()

    def show(self, model: DashboardModel) -> None:
        said = tuple((told.title, told.message) for told in self.app._notifications)
        if said != self._said:
            self._said, self.first_row = said, 0
            self.set_class(not said, "-away")
            self.refresh(layout=True)
        super().show(model)

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return min(len(self.rows(width)), viewport.height * 3 // 4)

    def rows(self, width: int) -> list[Line]:
        close = "app.command('look.back')"
        return [
            ((f" {row}", style, close),)
            for said in self._said
            for text, style in zip(said, ("accent*", "text"), strict=True)
            for row in wrap(clean(text), width - 2 if text else 0)
        ]


class Summary(Sentences, can_focus=False):
    HELP_TITLE = "Finished"
    HELP_TEXT = (
        "The results of the run, which has finished. The other panels show the state after"
        " the last step."
    )

    _summary = RunSummary([], None)

    def tell(self, summary: RunSummary) -> None:
        if summary != self._summary:
            self._summary = summary
            self.refresh(layout=True)

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        """The row of keys is always the last one, however few rows an answer leaves."""
        *said, keys = self.rows(width)
        return [*self.window(said, width, height - 1), keys]

    def rows(self, width: int) -> list[Line]:
        """The figures that fit into one row, the sentences, and the keys."""
        figures = Row(width).put(" ")
        for (number, label), style in zip(self._summary.figures, _STYLES, strict=False):
            if width_of(f"{number} {label}") <= figures.room:
                figures.put(clean(number), style).put(f" {clean(label)}", "muted").put("", width=3)
        sentences = [
            ((f" {row}", "text"),)
            for sentence in self._summary.lines
            for row in wrap(clean(sentence), width - 2)
        ]
        keys = Row(width).put(" ")
        hidden = () if self.context.transport.view.explanations.judged else ("screen.choice",)
        for command_id, words in (row for row in _NEXT if row[0] not in hidden):
            action = f"app.command('{command_id}')"
            keys.put(self.screen.bound[command_id].key_display, "accent*", target=action)
            keys.put(f" {words}   ", "muted", target=action)
        if width_of(_AFTER) <= keys.room:
            keys.put(_AFTER, "muted")
        head = [figures.line()] if self._summary.figures else []
        return [*head, *sentences, keys.line()]


_SUGGESTIONS = (
    ("engine.add", "Ask the model a question, and watch its blocks fill."),
    ("engine.burst", "Send four requests with the same beginning: they share blocks."),
    ("engine.phase", "Run the engine phase by phase: schedule, execute, sample."),
)
"""(command id, what it shows)"""
_KEY_WIDTH = 4


class Suggestions(Sentences, can_focus=False):
    HELP_TITLE = "Three things to try"
    HELP_TEXT = "Press one of these keys, or click on a row. The list goes at the first request."

    def rows(self, width: int) -> list[Line]:
        rows = []
        for command_id, words in _SUGGESTIONS:
            key = f"{self.screen.bound[command_id].key_display:<{_KEY_WIDTH}}"
            action = f"app.command('{command_id}')"
            rows += flow(((key, "accent*", action), (words, "text", action)), width, _KEY_WIDTH)
        return rows
