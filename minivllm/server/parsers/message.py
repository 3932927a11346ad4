"""`MessageParser`: the text of one answer as a chat message, or as the deltas of a stream."""

import math
import secrets
from collections.abc import Iterator
from typing import Any

from minivllm.server.parsers.base import (
    ArgumentsPiece,
    CallPiece,
    OutputParser,
    Piece,
    ReasoningPiece,
    TextPiece,
)


class MessageParser:
    def __init__(self, parser: OutputParser, *, parallel: bool) -> None:
        """parallel: allow several calls; otherwise all but the first are dropped"""
        self._parser = parser
        self._most_calls = math.inf if parallel else 1
        self._num_calls = 0

    def message(self, text: str) -> dict[str, Any]:
        """Convert a whole text."""
        content, reasoning, calls = "", "", []
        for piece in self._pieces(text, is_last=True):
            match piece:
                case TextPiece(text):
                    content += text
                case ReasoningPiece(text):
                    reasoning += text
                case CallPiece(name):
                    calls.append(_new_call(name))
                case ArgumentsPiece(text):
                    calls[-1]["function"]["arguments"] += text
        return {
            "role": "assistant",
            "content": (content or None) if calls else content,
            "reasoning_content": reasoning or None,
            "tool_calls": calls or None,
        }

    def deltas(self, text: str, *, is_last: bool) -> list[dict[str, Any]]:
        """Convert the next part of the text."""
        deltas: list[dict[str, Any]] = []
        for piece in self._pieces(text, is_last):
            index = self._num_calls - 1  # the generator has counted this piece
            match piece:
                case TextPiece(text):
                    deltas.append({"content": text})
                case ReasoningPiece(text):
                    deltas.append({"reasoning_content": text})
                case CallPiece(name):
                    deltas.append({"tool_calls": [{"index": index} | _new_call(name)]})
                case ArgumentsPiece(text):
                    call = {"index": index, "function": {"arguments": text}}
                    deltas.append({"tool_calls": [call]})
        return deltas

    def finish_reason(self, reason: str | None) -> str | None:
        """Return OpenAI's reason for the end: a call, unless the text was cut off."""
        return "tool_calls" if reason == "stop" and self._num_calls else reason

    def _pieces(self, text: str, is_last: bool) -> Iterator[Piece]:
        for piece in self._parser.feed(text) + (self._parser.finish() if is_last else []):
            self._num_calls += isinstance(piece, CallPiece)
            is_of_call = isinstance(piece, CallPiece | ArgumentsPiece)
            if piece[0] and not (is_of_call and self._num_calls > self._most_calls):
                yield piece


def _new_call(name: str) -> dict[str, Any]:
    function = {"name": name, "arguments": ""}
    return {"id": f"call_{secrets.token_hex(12)}", "type": "function", "function": function}
