"""Panels by name: make one for a screen, or draw one as plain text.

A lesson in a pipe prints a panel with `picture`, from the dashboard's own code.
"""

from importlib import import_module

from minivllm.tui.context import Context
from minivllm.tui.draw.lines import text_of
from minivllm.tui.lesson import PanelName
from minivllm.tui.widgets.frame.panel import Panel

_CLASSES: dict[PanelName, tuple[str, str]] = {
    "slots": ("requests", "Slots"),
    "blockmap": ("blocks", "BlockMap"),
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
    "batch_order": ("requests", "BatchOrder"),
    "finished": ("requests", "Finished"),
}
"""Panel name, also its module -> its folder in `widgets`, and its class."""


def make_panel(name: PanelName, *, id: str | None = None) -> Panel:
    folder, class_name = _CLASSES[name]
    return getattr(import_module(f"minivllm.tui.widgets.{folder}.{name}"), class_name)(id=id)


def picture(name: PanelName, context: Context, width: int, height: int) -> list[str]:
    """The panel's title and content as plain text, in at most `height` rows.

    Empty rows at the end are left out.
    """
    panel = make_panel(name)
    panel.context = context
    model = context.transport.view
    # Draw the rows first: the title can depend on what they found.
    rows = [text_of(row).rstrip() for row in panel.lines(model, width, height - 1)]
    while rows and not rows[-1]:
        rows.pop()
    return [panel.title(model, width).strip(), *rows]
