"""In the panels of a terminal of 120x36 or 80x24, no reason, figure or line of code is cut."""

from support.tui.shown import rows

from minivllm.events import types as ev
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.events.eventlog import EventLog
from minivllm.tui.widgets.requests.waiting import Waiting
from minivllm.tui.widgets.steps.step_detail import StepDetail

WIDTHS = (38, 42)
"""Of the panels at the right, at 80 and 120 columns."""


def test_a_reason_takes_a_second_row_rather_than_be_cut(memory_pressure) -> None:
    run, num_preemptions = memory_pressure.run(), 0
    model = DashboardModel(run.header)
    for event in run.events:
        model.apply(event)
        num_preemptions += isinstance(event, ev.RequestPreempted)
        if isinstance(event, ev.StepEnd) and model.steps.records[-1].preempted:
            for panel in (StepDetail(), EventLog(), Waiting()):
                for width in WIDTHS:
                    assert not [row for row in rows(panel, model, width, 200) if "…" in row]
    assert num_preemptions > 2
