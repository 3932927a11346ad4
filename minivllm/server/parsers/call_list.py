"""`CallListParser`: calls one after the other, with nothing but separators around them.

    {"name": "time", "parameters": {}}; {"name": ...}      Llama 3's form, `llama3_json` in vLLM
    [{"name":"time","parameters":{}},{"name":...}]         ours, with tool_choice "required"

A text that is not a call is content, and so is all that follows it. `NamedCallParser` is for a
named function: the whole text is its arguments.

Source: vLLM `vllm/entrypoints/openai/tool_parsers/llama_tool_parser.py`.
"""

from minivllm.server.parsers.base import ArgumentsPiece, CallPiece, Piece, TextPiece
from minivllm.server.parsers.call_reader import CallReader

LLAMA_SEPARATORS = "; \t\n"
OUR_SEPARATORS = "[,]"


class CallListParser:
    def __init__(self, separators: str) -> None:
        self._separators = separators
        self._skipped = ""
        self._call: CallReader | None = None
        # Our form has nothing but calls, so its rest is never content.
        self._has_calls, self._is_text = separators == OUR_SEPARATORS, False

    def feed(self, text: str) -> list[Piece]:
        pieces: list[Piece] = []
        while text and not self._is_text:
            if self._call is None:
                stripped = text.lstrip(self._separators)
                self._skipped += text[: len(text) - len(stripped)]
                text = stripped
                if not text:
                    break
                self._call = CallReader()
            pieces += self._call.feed(text)
            text = self._call.rest
            if self._call.is_complete:
                self._call, self._skipped, self._has_calls = None, "", True
            elif self._call.is_broken:
                self._call, self._is_text = None, True
                text, self._skipped = self._skipped + text, ""
        return [*pieces, TextPiece(text)] if self._is_text else pieces

    def finish(self) -> list[Piece]:
        if self._call is None:
            return [] if self._has_calls else [TextPiece(self._skipped)]
        pieces = self._call.finish(self._has_calls)
        return [TextPiece(self._skipped + self._call.rest)] if self._call.is_broken else pieces


class NamedCallParser:
    def __init__(self, name: str) -> None:
        self._begin: list[Piece] = [CallPiece(name)]

    def feed(self, text: str) -> list[Piece]:
        pieces, self._begin = [*self._begin, ArgumentsPiece(text)], []
        return pieces

    def finish(self) -> list[Piece]:
        return self._begin
