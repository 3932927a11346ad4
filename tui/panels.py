"""Panels by name: make one for a screen, or draw one as plain text (`minivllm lesson --plain`)."""

from importlib import import_module

from minivllm.tui.context import Context
from minivllm.tui.draw.lines import text_of
from minivllm.tui.lesson import PanelName
from minivllm.tui.widgets.frame.panel import Panel

_CLASSES: dict[PanelName, tuple[str, str]] = {
    "slots": ("requests", "Slots"),
    "blockmap": ("blocks", "BlockMap"),
    "hostmap": ("blocks", "HostMap"),
    "budget": ("steps", "Budget"),
    "waiting": ("requests", "Waiting"),
    "freequeue": ("blocks", "FreeQueue"),
    "eventlog": ("events", "EventLog"),
    "inspector": ("blocks", "Inspector"),
    "prefix_tree": ("blocks", "PrefixTree"),
    "mass": ("blocks", "Mass"),
    "xray": ("blocks", "XRay"),
    "timelines": ("requests", "Timelines"),
    "request_detail": ("requests", "RequestDetail"),
    "step_history": ("steps", "StepHistory"),
    "finished": ("requests", "Finished"),
    "choice": ("choice", "Choice"),
    "branches": ("requests", "BranchTree"),
    "flat_batch": ("steps", "FlatBatch"),
    "experts": ("steps", "ExpertMap"),
}
"""Panel name (and its module) -> (folder in `widgets`, class name)."""


def make_panel(name: PanelName, *, id: str | None = None) -> Panel:
    folder, class_name = _CLASSES[name]
    return getattr(import_module(f"minivllm.tui.widgets.{folder}.{name}"), class_name)(id=id)


def picture(name: PanelName, context: Context, width: int, height: int) -> list[str]:
    """The panel's title and content, in at most `height` rows, without empty rows at the end."""
    panel = make_panel(name)
    panel.context = context
    model = context.transport.view
    # Draw the rows first, because the title can depend on what drawing them found.
    rows = [text_of(row).rstrip() for row in panel.lines(model, width, height - 1)]
    while rows and not rows[-1]:
        rows.pop()
    return [panel.title(model, width).strip(), *rows]
