"""`HermesParser`: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

The form of Hermes 2 Pro and Qwen. Text before, between and after the calls is content.

Source: vLLM `vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py`.
"""

from minivllm.server.parsers.base import (
    Piece,
    TextPiece,
    begins_like_a_call,
    length_without_mark,
    read_call,
)

BEGIN, END = "<tool_call>", "</tool_call>"


class HermesParser:
    def __init__(self) -> None:
        self._held = ""
        self._is_in_call = False
        """Whether the first mark has been read, but not the second."""
        self._has_calls = False
        self._skips_space = True
        """At the start and after a call, white space is part of the form."""

    def feed(self, text: str) -> list[Piece]:
        self._held += text
        pieces: list[Piece] = []
        is_over = False
        while not is_over:
            inside, mark, after = self._held.partition(END if self._is_in_call else BEGIN)
            is_over = not mark
            if not self._is_in_call:
                sure = len(inside) if mark else length_without_mark(inside, BEGIN)
                pieces += self._text(inside[:sure])
                self._held = after if mark else inside[sure:]
            elif mark:
                call = read_call(inside)
                pieces += call or [TextPiece(BEGIN + inside + END)]
                self._skips_space = bool(call)
                self._has_calls |= self._skips_space
                self._held = after
            self._is_in_call ^= bool(mark)
        return pieces

    def finish(self) -> list[Piece]:
        if not self._is_in_call:
            return [] if self._has_calls else [TextPiece(self._held)]
        if (call := read_call(self._held)) or (self._has_calls and begins_like_a_call(self._held)):
            return call
        return [TextPiece(BEGIN + self._held)]

    def _text(self, text: str) -> list[Piece]:
        if self._skips_space:
            text = text.lstrip()
            self._skips_space = not text
        return [TextPiece(text)]
