"""`MessageParser`: what each part of a text adds to a chat message."""

from typing import NamedTuple

from minivllm.server.parsers.reasoning import ReasoningParserName, split_reasoning
from minivllm.server.parsers.tool_calls import Call, ToolParser


class Message(NamedTuple):
    """A message, or a part of one."""

    reasoning: str
    content: str
    calls: list[Call]


class MessageParser:
    """Reads the text of one answer. However it is cut, the parts join to the same message."""

    def __init__(
        self, parse: ToolParser, reasoning: ReasoningParserName | None, *, parallel: bool
    ) -> None:
        """parallel: allow several calls; otherwise all but the first are dropped"""
        self._parse, self._reasoning = parse, reasoning
        self._most_calls = None if parallel else 1
        self._text = ""
        self.so_far = Message("", "", [])

    def take(self, text: str, ended: bool) -> Message:
        """Read the next part of the text, or the last. Return what it adds to the message."""
        self._text += text
        reasoning, answer = "", self._text
        if self._reasoning is not None:
            reasoning, answer = split_reasoning(self._text, ended, self._reasoning)
        content, calls = self._parse(answer, ended)
        before = self.so_far
        self.so_far = Message(reasoning, content, calls[: self._most_calls])
        return Message(*(all_[len(old) :] for all_, old in zip(self.so_far, before, strict=True)))
