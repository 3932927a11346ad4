"""In the panels of a terminal of 120x36 or 80x24, no reason, figure or line of code is cut."""

from support.tui.shown import ends_of_steps, rows

from minivllm.tui.widgets.events.eventlog import EventLog
from minivllm.tui.widgets.frame.header import Header
from minivllm.tui.widgets.requests.waiting import Waiting
from minivllm.tui.widgets.steps.budget import Budget
from minivllm.tui.widgets.steps.step_detail import StepDetail

WIDTHS = (38, 42)
"""Of the panels at the right, at 80 and 120 columns."""


def test_a_reason_takes_a_second_row_rather_than_be_cut(memory_pressure) -> None:
    num_preemptions = 0
    for model in ends_of_steps(memory_pressure.run()):
        preempted = model.steps.records[-1].preempted
        num_preemptions += len(preempted)
        for panel in (StepDetail(), EventLog(), Waiting(), Budget()) if preempted else ():
            for width in WIDTHS:
                assert not [row for row in rows(panel, model, width, 200) if "…" in row]
    assert num_preemptions > 2
    short, long = (rows(Header(), model, width, 1)[0] for width in (49, 105))
    assert f"↺{num_preemptions}" in short and f"{num_preemptions} preempted" in long
