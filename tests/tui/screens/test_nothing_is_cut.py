"""In the panels of a terminal of 120x36 or 80x24, no reason, figure or line of code is cut."""

import re

from support.tui.memory_recording import context_of
from support.tui.shown import rows

from minivllm.events import types as ev
from minivllm.tui.answers.code import Rule, source_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.events.event_detail import EventDetail
from minivllm.tui.widgets.events.event_list import EventList
from minivllm.tui.widgets.events.eventlog import EventLog
from minivllm.tui.widgets.requests.batch_order import BatchOrder
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
            for panel in (StepDetail(), EventLog(), Waiting(), BatchOrder()):
                for width in WIDTHS:
                    assert not [row for row in rows(panel, model, width, 200) if "…" in row]
    assert num_preemptions > 2


def test_a_step_s_event_shows_its_time_and_longest_phase(shared_prefix) -> None:
    run = shared_prefix.run(12)
    end = next(event for event in reversed(run.events) if isinstance(event, ev.StepEnd))
    run.events[end.seq] = ev.StepEnd(end.seq, end.step, end.t, end.used, 0.001, 0.002, 0.0655, 0.0)
    context = context_of(run)
    panel = EventList()
    panel.context = context
    row = next(row for row in rows(panel, context.transport.view, 76) if row.startswith("▶"))
    assert " ms: model 65.5" in row and "68.5" in row


def test_the_code_beside_an_event_continues_in_the_next_row(memory_pressure) -> None:
    run = memory_pressure.run(60)
    shown = set()
    for event in run.events:
        rule = Rule(event.rule, type(event))
        if rule in shown:
            continue
        shown.add(rule)
        context, panel = context_of(run, event.seq + 1), EventDetail()
        panel.context = context
        code = [row for row in rows(panel, context.transport.view, 37, 60) if row]
        assert not [row for row in code if "…" in row]
        marked = sorted(source_of(rule).marked)
        lines = source_of(rule).code.splitlines()
        for number in marked:
            text = re.sub(r"\s", "", lines[number - source_of(rule).first_line])
            assert text in re.sub(r"\s", "", "".join(code)), event
    assert len(shown) > 12
