"""Draws panels without an app."""

import re

from minivllm.tui.draw.lines import text_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.header import Header
from minivllm.tui.widgets.frame.panel import Panel
from support.engine.random_runs import standing_at

SCENARIOS = ("shared_prefix", "memory_pressure", "samples", "beams", "drafts")
"""Fixtures of tests/tui/conftest.py, used by most panel tests."""
ROOMS = [(1, 1), (2, 3), (10, 2), (24, 4), (38, 9), (79, 8), (118, 20), (200, 60)]
"""Panel sizes, from one cell to a whole terminal."""


def rows(panel: Panel, model: DashboardModel, width: int = 110, height: int = 20) -> list[str]:
    if panel.context is None and isinstance(panel, Header):
        panel.context = standing_at(model)
    return [text_of(line).rstrip() for line in panel.lines(model, width, height)]


def missing_from(text: str, *facts: object) -> list[object]:
    """Names and numbers that a text does not mention."""
    return [
        fact
        for fact in facts
        if not re.search(rf"(?<![\w.]){re.escape(str(fact))}(?!\w|\.\w)", text)
    ]
