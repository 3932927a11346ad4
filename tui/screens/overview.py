"""The overview: all panels of one engine on one screen."""

from collections.abc import Iterator
from typing import ClassVar

from textual.app import ComposeResult
from textual.containers import Horizontal, Vertical
from textual.screen import Screen
from textual.widgets import Footer

from minivllm.tui.widgets.blockmap import BlockMap
from minivllm.tui.widgets.budget import Budget
from minivllm.tui.widgets.eventlog import EventLog
from minivllm.tui.widgets.finished import Finished
from minivllm.tui.widgets.freequeue import FreeQueue
from minivllm.tui.widgets.header import Header
from minivllm.tui.widgets.panel import Panel
from minivllm.tui.widgets.sentences import Summary, Watch
from minivllm.tui.widgets.slots import Slots
from minivllm.tui.widgets.waiting import Waiting


class Overview(Screen):
    """Slots across the top; memory and what came of it on the left; plans and decisions on the right."""

    # Under 110 columns the panels drop their boxes; tall and wide screens give each panel more.
    HORIZONTAL_BREAKPOINTS: ClassVar = [(0, "-narrow"), (110, "-wide")]
    VERTICAL_BREAKPOINTS: ClassVar = [(0, "-low"), (32, "-medium"), (48, "-tall")]

    def __init__(self, watch: str, max_num_seqs: int) -> None:
        super().__init__()
        self._max_num_seqs = max_num_seqs
        self._watch = watch

    def compose(self) -> ComposeResult:
        yield Header(id="header")
        yield Watch(self._watch, id="watch")
        yield Summary(id="summary")
        yield Slots(self._max_num_seqs, id="slots")
        with Horizontal(id="body"):
            with Vertical(id="memory"):
                yield BlockMap(id="blockmap")
                yield FreeQueue(id="freequeue")
                yield Finished(id="finished")
            with Vertical(id="plan"):
                yield Budget(id="budget")
                yield Waiting(id="waiting")
                yield EventLog(id="eventlog")
        yield Footer(show_command_palette=False)

    def panels(self) -> Iterator[Panel]:
        """Every panel, from the top of the screen to its bottom."""
        yield from self.query(Panel)
