"""The question of the `w` key, put to a model without an app."""

from random_traces import context_with

from minivllm.tui.model import DashboardModel
from minivllm.tui.selection import Selection, Target
from minivllm.tui.why import why

NOTHING = Selection()


def ask_why(model: DashboardModel, target: Target) -> str:
    return why(model, context_with(target).selection)


def short(seq_id: str) -> str:
    return seq_id.removesuffix(".0")
