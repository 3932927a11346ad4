"""Panels with plain sentences: what to try, and the summary at the end of a run."""

from textual.geometry import Size

from minivllm.text import clean
from minivllm.tui.context import RunSummary
from minivllm.tui.draw.lines import Line, Row, flow, width_of, wrap
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


class Sentences(Panel, can_focus=False):
    """A panel that is as high as what it says."""

    def rows(self, width: int) -> list[Line]:
        raise NotImplementedError

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        return self.rows(width)[:height]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self.rows(width))


class Notice(Sentences, can_focus=False):
    HELP_TITLE = "Notice"
    HELP_TEXT = "What the dashboard says, or the answer to w. A click or esc closes it."
    _said: tuple[tuple[str, str], ...] = ()

    def show(self, model: DashboardModel) -> None:
        said = tuple((told.title, told.message) for told in self.app._notifications)
        if said != self._said:
            self._said = said
            self.set_class(not said, "-away")
            self.refresh(layout=True)
        super().show(model)

    def rows(self, width: int) -> list[Line]:
        texts = [
            pair for said in self._said for pair in zip(said, ("accent*", "text"), strict=True)
        ]
        close = "app.command('look.back')"
        return [
            ((f" {row}", style, close),)
            for text, style in texts
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

    def rows(self, width: int) -> list[Line]:
        """The figures that fit into one row, then the sentences."""
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
