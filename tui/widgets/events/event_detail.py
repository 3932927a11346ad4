"""Panel for one event: the meaning of its kind, its fields, and the function that emitted it."""

import textwrap
from itertools import islice
from re import compile as compile_pattern

from minivllm.events import types as ev
from minivllm.text import clean, visible
from minivllm.tui.answers.code import meaning_of
from minivllm.tui.draw.lines import Line, Row, flow, line, packed
from minivllm.tui.draw.selection import Target, block, sequence, step
from minivllm.tui.state.decisions import sampling_words, sentence_of, style_of
from minivllm.tui.state.model import DashboardModel
from minivllm.tui.time.event_search import EventFilter, event_in_question
from minivllm.tui.widgets.frame.panel import Panel

_LONGEST_VALUE = 400
_MOST_NUMBERS = 100
_PARTS = compile_pattern(r"[^.]+\.?")


class EventDetail(Panel):
    HELP_TITLE = "Event"
    HELP_TEXT = (
        "One event with all its fields, the meaning of its kind, and the function of the"
        " engine that emitted it. You can select the sequences, blocks and steps that it"
        " names; s shows the function and marks the line."
    )
    KEYS = ("look.source", "look.filter", "time.event")

    def lines(self, model: DashboardModel, width: int, height: int) -> list[Line]:
        event = None if self.context is None else event_in_question(self.context)
        if event is None:
            return [line(width, ("There is no event yet.", "muted"))][:height]
        wanted = EventFilter.parse(self.context.event_filter)
        if wanted is not None and not wanted.accepts(event):
            words = "The event of this moment is not in the list: ↑ and ↓ go to one that is."
            return [line(width, (text, "muted")) for text in _wrap(words, width)][:height]
        kind, number = event.__struct_config__.tag, f"  event {event.seq:,}"
        top = [line(width, (kind, "accent*"), (number, "muted"))]
        said = _wrap(sentence_of(event), width)[:3]
        top += [line(width, (text, style_of(event))) for text in said]
        meaning = [line(width, (text, "text")) for text in _wrap(meaning_of(type(event)), width)]
        where, _, function = event.rule.partition(":")
        parts = [(part, "faint") for part in _PARTS.findall(where)]  # a row may end after each
        by = "in minivllm by " if model.header.source else "emitted by "
        names = (by, "faint"), (function, "muted"), (" in ", "faint"), *parts
        rule = flow(names, width, indent=2)
        # Draw one field per line, or several if there is no room. Omit fields only after that.
        fields = _fields(event, width)
        if len(top) + len(fields) + len(meaning) + len(rule) > height:
            fields = _flowing_fields(event, width)
        lines = [*top, *fields, *meaning, *rule]
        if len(lines) + 3 <= height:
            lines = [*top, (), *fields, (), *meaning, (), *rule]
        return lines[:height]


def _fields(event: ev.Event, width: int) -> list[Line]:
    names = _names(event)
    label_width = min(max(map(len, names)) + 2, 22, max(width - 12, width // 2, 1))
    lines: list[Line] = []
    for name in names:
        texts = _wrap(_text_of(getattr(event, name)), width - label_width)
        target = _target(name, getattr(event, name))
        row = Row(width).put(name, "muted", label_width).put(texts[0], "text", target=target)
        lines.append(row.line())
        rest = (Row(width).put("", width=label_width).put(text, "text") for text in texts[1:3])
        lines += [row.line() for row in rest]
    return lines


def _flowing_fields(event: ev.Event, width: int) -> list[Line]:
    values = ((name, getattr(event, name)) for name in _names(event))
    items = (
        Row(width).put(f"{name} ", "muted").put(_text_of(value), target=_target(name, value)).line()
        for name, value in values
    )
    return packed(items, width, len(_names(event)), gap="   ")


def _names(event: ev.Event) -> list[str]:
    return [name for name in event.__struct_fields__ if name != "seq"]


def _text_of(value: object) -> str:
    match value:
        case float():
            return f"{value:.6g}"
        case ev.RequestSampling():
            return sampling_words(value)
        case list() if value and isinstance(value[0], int | float):
            numbers = " ".join(
                f"{number:.3g}" if isinstance(number, float) else str(number)
                for number in value[:_MOST_NUMBERS]
            )
            return f"{len(value):,}: {numbers}"
        case dict():
            some = islice(value.items(), _MOST_NUMBERS)
            pieces = (f"{key} “{visible(text)}”" for key, text in some)
            return f"{len(value):,}: {' '.join(pieces)}"
        case str():
            text = clean(value[:_LONGEST_VALUE])
            return text if value and value == value.strip() else f"“{text}”"
    return clean(str(value)[:_LONGEST_VALUE])


def _target(name: str, value: object) -> Target | None:
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
