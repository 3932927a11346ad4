"""`HermesParser`: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.

The form of Hermes 2 Pro and Qwen. Text before, between and after the calls is content.

Source: vLLM `vllm/entrypoints/openai/tool_parsers/hermes_tool_parser.py`.
"""

from minivllm.server.parsers.base import Piece, TextPiece, length_without_mark
from minivllm.server.parsers.call_reader import CallReader

BEGIN, END = "<tool_call>", "</tool_call>"


class HermesParser:
    def __init__(self) -> None:
        self._held = ""
        self._call: CallReader | None = None
        """Between the two marks; None outside."""
        self._has_calls = False
        self._skips_space = True
        """At the start and after a call, white space is part of the form."""

    def feed(self, text: str) -> list[Piece]:
        self._held += text
        pieces: list[Piece] = []
        while self._held and self._go_on(pieces):
            pass
        return pieces

    def finish(self) -> list[Piece]:
        if self._call is None:
            return [] if self._has_calls else [TextPiece(self._held)]
        if self._call.is_complete:
            return []
        pieces = self._call.finish(self._has_calls)
        return [TextPiece(BEGIN + self._call.rest)] if self._call.is_broken else pieces

    def _go_on(self, pieces: list[Piece]) -> bool:
        """Read up to the next change. Return False if there is none in the text so far."""
        if self._call is None:
            return self._read_text(pieces)
        if self._call.is_complete:
            return self._look_for_end()
        return self._read_call(pieces)

    def _read_text(self, pieces: list[Piece]) -> bool:
        text, mark, after = self._held.partition(BEGIN)
        if mark:
            self._held, self._call = after, CallReader()
        else:
            sure = length_without_mark(text, BEGIN)
            text, self._held = text[:sure], text[sure:]
        if self._skips_space:
            text = text.lstrip()
            self._skips_space = not text
        pieces.append(TextPiece(text))
        return bool(mark)

    def _read_call(self, pieces: list[Piece]) -> bool:
        pieces += self._call.feed(self._held)
        self._held = self._call.rest
        if self._call.is_complete:
            self._has_calls = self._skips_space = True
        elif self._call.is_broken:
            pieces.append(TextPiece(BEGIN))
            self._call = None
        return bool(self._held)

    def _look_for_end(self) -> bool:
        _, mark, after = self._held.partition(END)
        if mark:
            self._held, self._call = after, None
        else:
            self._held = self._held[length_without_mark(self._held, END) :]
        return bool(mark)
