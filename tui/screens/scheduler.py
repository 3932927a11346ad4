"""The Scheduler screen: how steps spent their token budget, and why requests wait.

Where there is room, also charts of the last steps, and the last step's tokens as the model gets
them.
"""

from collections.abc import Iterable

from textual.containers import Horizontal, Vertical
from textual.widget import Widget

from minivllm.tui.draw.selection import Target, step
from minivllm.tui.screens.base import DashboardScreen
from minivllm.tui.widgets.steps.charts import StepCharts
from minivllm.tui.widgets.steps.experts import ExpertMap
from minivllm.tui.widgets.steps.flat_batch import FlatBatch
from minivllm.tui.widgets.steps.step_detail import StepDetail
from minivllm.tui.widgets.steps.step_history import StepHistory


class SchedulerScreen(DashboardScreen):
    NAME, KIND = "scheduler", "step"

    def body(self) -> Iterable[Widget]:
        yield StepCharts(id="step-charts")
        with Horizontal(id="scheduler-body"):
            yield StepHistory(id="step-history")
            with Vertical(id="scheduler-side"):
                yield StepDetail(id="step-detail")
                yield FlatBatch(id="flat-batch")
                self._experts = ExpertMap(id="experts")
                yield self._experts

    def row(self) -> Target | None:
        """The step in the panel "Chosen step"."""
        records = self.context.transport.view.steps.records
        return super().row() or (step(records[-1].step) if records else None)

    def draw(self) -> None:
        self._experts.set_class(self.context.transport.view.experts is not None, "-filled")
        super().draw()
