"""Panel for recent decisions: what the engine did and why, one sentence per line, newest last."""

from minivllm.tui.draw.lines import Line, flow, line
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import event as to_event
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.widgets.frame.panel import Panel


class EventLog(Panel):
    HELP_TITLE = "Recent events"
    HELP_TEXT = (
        "The engine's decisions, newest last, with their step. Tokens and plans are left out,"
        " because every step has them: see the panels for the slots and the budget."
    )
    KEYS = ("look.source", "look.filter", "time.event")

    def targets(self) -> list[Target]:
        """Only events: the cursor skips sequences, but a click can select them."""
        return [target for target in super().targets() if target.kind == "event"]

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        lines: list[Line] = []
        for decision in reversed(model.log.decisions):
            if len(lines) >= height:
                break
            spans = [(f"{decision.step:>4} ", "faint")]
            if decision.name:
                spans += [
                    (f"{decision.letter or ' '} ", f"{model.hue(decision.letter)}*"),
                    (decision.name, "text", to_sequence(decision.owner)),
                    (" ", "text"),
                ]
            target = to_event(decision.seq)
            spans += [(text, style, target) for text, style in decision.spans() if text]
            rows = flow(tuple(spans), width, indent=7)
            # The oldest visible decision may be cut, but it begins with its first words.
            has_room = len(lines) + len(rows) <= height
            lines += reversed(rows) if has_room else [line(width, *spans)]
        return lines[::-1] or [line(width, ("no decision yet", "faint"))]
