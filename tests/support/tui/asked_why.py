"""The question of the `w` key, put to a model without an app."""

from minivllm.tui.answers.why import why
from minivllm.tui.draw.selection import Selection, Target
from minivllm.tui.state.model import DashboardModel
from support.engine.random_traces import context_with

NOTHING = Selection()


def ask_why(model: DashboardModel, target: Target) -> str:
    return why(model, context_with(target).selection)


def short(seq_id: str) -> str:
    return seq_id.removesuffix(".0")
