"""Draws panels and asks for answers without an app, at each moment of a run."""

import re
from collections.abc import Iterator

from minivllm.events import types as ev
from minivllm.tui.answers.why import why
from minivllm.tui.draw.lines import text_of
from minivllm.tui.draw.selection import Target
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.header import Header
from minivllm.tui.widgets.frame.panel import Panel
from support.engine.random_runs import context_with, standing_at

SCENARIOS = ("shared_prefix", "memory_pressure", "samples", "beams", "drafts")
"""Fixtures of tests/tui/conftest.py, used by most panel tests."""
ROOMS = [(1, 1), (2, 3), (10, 2), (24, 4), (38, 9), (79, 8), (118, 20), (200, 60)]
"""Panel sizes, from one cell to a whole terminal."""


def moments(stage) -> Iterator[tuple[DashboardModel, ev.Event]]:
    """Each event of a stage, with the one model that has just applied it."""
    model = DashboardModel(stage.header)
    for event in stage.events:
        model.apply(event)
        yield model, event


def ends_of_steps(stage) -> Iterator[DashboardModel]:
    """The one model at the end of each step of a stage."""
    return (model for model, event in moments(stage) if isinstance(event, ev.StepEnd))


def rows(
    panel: Panel, model: DashboardModel, width: int = 110, height: int = 20, *selected: Target
) -> list[str]:
    """The drawn rows of a panel, after these targets were selected."""
    if selected:
        panel.context = context_with(*selected)
    elif panel.context is None and isinstance(panel, Header):
        panel.context = standing_at(model)
    return [text_of(line).rstrip() for line in panel.lines(model, width, height)]


def ask_why(model: DashboardModel, *targets: Target) -> str:
    """The answer of the key `w` after these targets were selected."""
    return why(model, context_with(*targets).selection.last)


def missing_from(text: str, *facts: object) -> list[object]:
    """Names and numbers that a text does not mention."""
    return [
        fact
        for fact in facts
        if not re.search(rf"(?<![\w.]){re.escape(str(fact))}(?!\w|\.\w)", text)
    ]
