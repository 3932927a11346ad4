"""`MessageParser`: what each part of a text adds to a chat message.

Reasoning is what is between `<think>` and `</think>`, before the answer. `deepseek_r1` is for
templates that write `<think>` themselves: the text begins with reasoning. `qwen3` is for models
that write both marks, or neither.

Source: vLLM `vllm/reasoning/deepseek_r1_reasoning_parser.py` and `qwen3_reasoning_parser.py`.
"""

import math
from typing import Literal, NamedTuple

from minivllm.server.parsers.tool_calls import Call, ParserState, ToolParser, length_without_mark

BEGIN, END = "<think>", "</think>"
ReasoningParserName = Literal["deepseek_r1", "qwen3"]


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
        self._parse = parse
        self._begins_with_reasoning = reasoning == "deepseek_r1"
        self._most_calls = math.inf if parallel else 1
        self._unread = ""
        self._is_fresh = True
        self._is_reasoning = False if reasoning is None else None
        """None while the text may still begin with `<think>`."""
        self.num_calls = 0

    def take(self, text: str, ended: bool) -> Message:
        """Read the next part of the text, or the last. Return what it adds to the message."""
        self._unread += text
        reasoning, content, calls = self._take_reasoning(ended), "", []
        while self._is_reasoning is False:
            state = ParserState(ended, self.num_calls, self._is_fresh)
            piece, self._unread = self._parse(self._unread, state)
            if not piece:
                break
            self._is_fresh = isinstance(piece, Call)
            if isinstance(piece, str):
                content += piece
            elif self.num_calls < self._most_calls:
                self.num_calls += 1
                calls.append(piece)
        return Message(reasoning, content, calls)

    def _take_reasoning(self, ended: bool) -> str:
        if self._is_reasoning is None:
            beginning = self._unread.lstrip()
            if beginning.startswith(BEGIN):
                self._unread, self._is_reasoning = beginning.removeprefix(BEGIN), True
            elif ended or not BEGIN.startswith(beginning):
                self._is_reasoning = self._begins_with_reasoning
        if not self._is_reasoning:
            return ""
        reasoning, mark, answer = self._unread.partition(END)
        if mark:
            self._unread, self._is_reasoning = answer, False
            return reasoning
        sure = len(reasoning) if ended else length_without_mark(reasoning, END)
        self._unread = reasoning[sure:]
        return reasoning[:sure]
