"""One event in full: what its kind means, its fields, and the function that emitted it."""

import textwrap

from minivllm.tui.code import meaning_of
from minivllm.tui.decisions import sentence_of, style_of
from minivllm.tui.event_search import event_in_question
from minivllm.tui.lines import Line, Row
from minivllm.tui.model import DashboardModel
from minivllm.tui.selection import Target, block, sequence, step
from minivllm.tui.text import clean
from minivllm.tui.widgets.panel import Panel

_LONGEST_VALUE = 400
_MOST_NUMBERS = 100


class EventDetail(Panel):
    """The event that was chosen, or else the one that came last."""

    HELP_TITLE = "Event"
    HELP_TEXT = (
        "One event with all its fields, what its kind means, and the function of the engine that emitted it. Sequences, "
        "blocks and steps in it can be chosen, and s shows the function with the line."
    )

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        event = None if self.context is None else event_in_question(self.context)
        if event is None:
            return [Row(width).put("Nothing has happened yet here.", "muted").line()][:height]
        lines = [Row(width).put(event.__struct_config__.tag, "accent*").put(f"  event {event.seq:,}", "muted").line()]
        lines += [Row(width).put(text, style_of(event)).line() for text in _wrap(sentence_of(event), width)[:2]]
        label_width = min(max(len(name) for name in event.__struct_fields__) + 2, 22, max(width // 2, 1))
        for name in event.__struct_fields__:
            if name != "seq":
                lines += _field(name, getattr(event, name), label_width, width)
        meaning = [Row(width).put(text, "text").line() for text in _wrap(meaning_of(type(event)), width)]
        # In a low panel the fields matter more than the lines that never change.
        if len(lines) + len(meaning) + 2 <= height:
            lines += [(), *meaning]
        elif len(lines) + len(meaning) <= height:
            lines += meaning
        rule = [Row(width).put("emitted by ", "faint").put(event.rule.partition(":")[2], "muted").line()]
        rule += [Row(width).put("  in ", "faint").put(event.rule.partition(":")[0], "muted").line()]
        if len(lines) + len(rule) < height:
            lines += [(), *rule]
        return lines[:height]


def _field(name: str, value: object, label_width: int, width: int) -> list[Line]:
    texts = _wrap(_text_of(value), width - label_width)
    target = _target(name, value)
    first = Row(width).put(name, "muted", label_width).put(texts[0], "text", target=target).line()
    return [first, *(Row(width).put("", width=label_width).put(text, "text").line() for text in texts[1:3])]


def _text_of(value: object) -> str:
    match value:
        case float():
            return f"{value:.6g}"
        case list() if value and isinstance(value[0], int | float):
            numbers = " ".join(f"{one:.3g}" if isinstance(one, float) else str(one) for one in value[:_MOST_NUMBERS])
            return f"{len(value):,}: {numbers}"
        case str():
            return f"“{clean(value[:_LONGEST_VALUE])}”" if not value or value != value.strip() else clean(value[:_LONGEST_VALUE])
    return clean(str(value)[:_LONGEST_VALUE])


def _target(name: str, value: object) -> Target | None:
    """What a field stands for on the other screens."""
    match name:
        case "seq_id" | "victim_of":
            return sequence(str(value))
        case "block_id" | "src" | "dst":
            return block(int(value))
        case "step":
            return step(int(value))
    return None


def _wrap(text: str, width: int) -> list[str]:
    return textwrap.wrap(text, max(width, 8)) or [""]
