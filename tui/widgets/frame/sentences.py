"""Panels with plain sentences: what to watch, and the summary at the end of a run."""

import textwrap

from textual.geometry import Size

from minivllm.text import clean
from minivllm.tui.context import RunSummary
from minivllm.tui.draw.lines import Line, Row, width_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel

_STYLES = ("good*", "accent*", "warn*")
"""Of the figures at the end of a run."""


class WatchSentence(Panel, can_focus=False):
    """The sentence under the top line: what to look for in this run."""

    HELP_TITLE = "What to watch"
    HELP_TEXT = "What this run demonstrates. Look for it in the panels below."

    def __init__(self, sentence: str, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._sentence = clean(sentence)
        if not self._sentence:
            self.display = False

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        label = " What to watch: " if width >= 100 else " Watch: "
        rows = _wrap(self._sentence, width - len(label) - 1)[:height]
        return [
            Row(width).put(label if y == 0 else " " * len(label), "accent*").put(row).line()
            for y, row in enumerate(rows)
        ]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        label = 16 if width >= 100 else 8
        return min(len(_wrap(self._sentence, width - label - 1)), 2)


class Summary(Panel, can_focus=False):
    HELP_TITLE = "Finished: press q to leave"
    HELP_TEXT = (
        "The results of the run, which has finished. The other panels show the state after"
        " the last step."
    )

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id)
        self._summary = RunSummary([], None)

    def tell(self, summary: RunSummary) -> None:
        if summary != self._summary:
            self._summary = summary
            self.refresh(layout=True)

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        return self._rows(width)[:height]

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        return len(self._rows(width))

    def _rows(self, width: int) -> list[Line]:
        """The figures that fit into one row, then the sentences."""
        figures = Row(width).put(" ")
        for (number, label), style in zip(self._summary.figures, _STYLES, strict=False):
            if width_of(f"{number} {label}") <= figures.room:
                figures.put(clean(number), style).put(f" {clean(label)}   ", "muted")
        sentences = [
            ((f" {row}", "text"),)
            for sentence in self._summary.lines
            for row in _wrap(clean(sentence), width - 2)
        ]
        return [figures.line(), *sentences] if self._summary.figures else sentences or [()]


def _wrap(sentence: str, width: int) -> list[str]:
    return textwrap.wrap(sentence, max(width, 10)) or [""]
