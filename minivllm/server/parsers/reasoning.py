"""`ReasoningParser`: separates what is between `<think>` and `</think>` from the answer.

`deepseek_r1` is for templates that write `<think>` themselves: the text begins with reasoning.
`qwen3` is for models that write both marks, or neither.

Source: vLLM `vllm/reasoning/deepseek_r1_reasoning_parser.py` and `qwen3_reasoning_parser.py`.
"""

from minivllm.server.parsers.base import OutputParser, Piece, ReasoningPiece, length_without_mark

BEGIN, END = "<think>", "</think>"


class ReasoningParser:
    def __init__(self, answer: OutputParser, *, begins_with_reasoning: bool) -> None:
        """answer: the parser for the text after the reasoning"""
        self._answer = answer
        self._begins_with_reasoning = begins_with_reasoning
        self._held = ""
        self._is_reasoning: bool | None = None
        """None while the text may still begin with `<think>`."""

    def feed(self, text: str) -> list[Piece]:
        self._held += text
        if self._is_reasoning is None:
            self._look_for_begin()
        if self._is_reasoning is None:
            return []
        if not self._is_reasoning:
            text, self._held = self._held, ""
            return self._answer.feed(text)
        reasoning, mark, after = self._held.partition(END)
        if mark:
            self._held, self._is_reasoning = "", False
            return [ReasoningPiece(reasoning), *self._answer.feed(after)]
        sure = length_without_mark(reasoning, END)
        self._held = reasoning[sure:]
        return [ReasoningPiece(reasoning[:sure])]

    def finish(self) -> list[Piece]:
        if self._is_reasoning or (self._is_reasoning is None and self._begins_with_reasoning):
            return [ReasoningPiece(self._held)]
        return [*self._answer.feed(self._held), *self._answer.finish()]

    def _look_for_begin(self) -> None:
        beginning = self._held.lstrip()
        if beginning.startswith(BEGIN):
            self._held, self._is_reasoning = beginning.removeprefix(BEGIN), True
        elif not BEGIN.startswith(beginning):
            self._is_reasoning = self._begins_with_reasoning
