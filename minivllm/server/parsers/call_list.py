"""`CallListParser`: calls one after the other, with nothing but separators around them.

    {"name": "time", "parameters": {}}; {"name": ...}      Llama 3's form, `llama3_json` in vLLM
    [{"name":"time","parameters":{}},{"name":...}]         ours, with tool_choice "required"

A text that is not a call is content, and so is all that follows it. `NamedCallParser` is for a
named function: the whole text is its arguments.

Source: vLLM `vllm/entrypoints/openai/tool_parsers/llama_tool_parser.py`.
"""

import json

from minivllm.server.parsers.base import (
    CallPiece,
    Piece,
    TextPiece,
    begins_like_a_call,
    read_call,
)

LLAMA_SEPARATORS = "; \t\n"
OUR_SEPARATORS = "[,]"
_DECODER = json.JSONDecoder()


class CallListParser:
    def __init__(self, separators: str) -> None:
        self._separators = separators
        self._held = ""
        # Our form has nothing but calls, so its rest is never content.
        self._has_calls, self._is_text = separators == OUR_SEPARATORS, False

    def feed(self, text: str) -> list[Piece]:
        pieces: list[Piece] = []
        self._held += text
        while not self._is_text and (rest := self._held.lstrip(self._separators)):
            self._is_text = rest[0] != "{"
            try:
                _, end = _DECODER.raw_decode(rest)
            except (ValueError, RecursionError):
                break  # the object is not complete yet
            call = read_call(rest[:end])
            if not call:
                self._is_text = True
                break
            pieces += call
            self._held, self._has_calls = rest[end:], True
        return pieces + self._take_text() if self._is_text else pieces

    def finish(self) -> list[Piece]:
        if self._has_calls and begins_like_a_call(self._held.lstrip(self._separators)):
            return []
        return self._take_text()

    def _take_text(self) -> list[Piece]:
        text, self._held = self._held, ""
        return [TextPiece(text)]


class NamedCallParser:
    def __init__(self, name: str) -> None:
        self._name, self._arguments = name, ""

    def feed(self, text: str) -> list[Piece]:
        self._arguments += text
        return []

    def finish(self) -> list[Piece]:
        return [CallPiece(self._name, self._arguments)]
