"""The panels that can be shown anywhere, by name: made for a screen, or drawn as plain text without
one.

Plain text is the same code asked for its lines, so a lesson in a pipe shows what the dashboard
would. A panel fills the room it is given; here the empty rows at its end are left out.
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
"""Name of a panel, which is also its module -> the folder of `widgets` that it is in, and its
class.
"""


def make_panel(name: PanelName, *, id: str | None = None) -> Panel:
    """A new panel of this name."""
    folder, class_name = _CLASSES[name]
    return getattr(import_module(f"minivllm.tui.widgets.{folder}.{name}"), class_name)(id=id)


def picture(name: PanelName, context: Context, width: int, height: int) -> list[str]:
    """What the panel of this name shows now, its title first, in at most `height` rows."""
    panel = make_panel(name)
    panel.context = context
    model = context.transport.view
    # The title may be made of what the lines have found.
    rows = [text_of(row).rstrip() for row in panel.lines(model, width, height - 1)]
    while rows and not rows[-1]:
        rows.pop()
    return [panel.title(model, width).strip(), *rows]
