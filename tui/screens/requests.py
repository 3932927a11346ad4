"""The Requests screen: a timeline of every request, and all details of the selected one.

If the request has several answers, also their tree;
if a sequence is watched, the choice of its token.
"""

from collections.abc import Iterable

from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from minivllm.tui.draw.selection import Target, sequence
from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.choice.choice import Choice
from minivllm.tui.widgets.requests.branches import BranchTree, shown_tree
from minivllm.tui.widgets.requests.request_detail import RequestDetail, shown_record
from minivllm.tui.widgets.requests.timelines import Timelines


class RequestsScreen(DashboardScreen):
    NAME, KIND = "requests", "sequence"

    def body(self) -> Iterable[Widget]:
        with Vertical(id="requests-body"):
            yield Timelines(id="timelines")
            with Horizontal(id="requests-chosen"):
                yield RequestDetail(id="request-detail")
                yield BranchTree(id="branches")
            yield Choice(id="requests-choice")

    def row(self) -> Target | None:
        """The request in the panel "Chosen request"."""
        record = shown_record(self.context.transport.view, None)
        return super().row() or (sequence(record.seq_id) if record is not None else None)

    def draw(self) -> None:
        """Show the last panel as soon as a token is explained, and the tree of a request that has
        several answers.
        """
        model, chosen = self.context.transport.view, self.context.selection.seq_id
        self.set_class(model.explanations.last is not None, "-explains")
        self.set_class(shown_tree(model, chosen) is not None, "-branches")
        super().draw()
