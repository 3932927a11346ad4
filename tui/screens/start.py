"""The Start screen: shown while an engine is being built, in place of all other screens."""

from collections.abc import Iterable

from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.frame.sentences import WatchSentence
from minivllm.tui.widgets.frame.start_line import StartLine


class StartScreen(DashboardScreen):
    NAME = "start"

    def body(self) -> Iterable[Widget]:
        yield WatchSentence(self.context.watch, id="watch")
        yield StartLine(id="start-line")
