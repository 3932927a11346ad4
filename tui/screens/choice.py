"""The Choice screen: how a sequence gets its next word, with all candidates and the race."""

from collections.abc import Iterable

from textual.containers import Vertical
from textual.widget import Widget

from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.choice.choice import Choice
from minivllm.tui.widgets.requests.slots import Slots


class ChoiceScreen(DashboardScreen):
    NAME = "choice"

    def body(self) -> Iterable[Widget]:
        with Vertical(id="choice-body"):
            yield Slots(id="choice-slots")
            yield Choice(id="choice")
