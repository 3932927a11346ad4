"""`MessageParser`: the text of one answer as a chat message, or as the deltas of a stream."""

import math
import secrets
from collections.abc import Iterator
from typing import Any

from minivllm.server.parsers.base import (
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
                case CallPiece():
                    calls.append(_with_id(piece))
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
            match piece:
                case TextPiece(text):
                    deltas.append({"content": text})
                case ReasoningPiece(text):
                    deltas.append({"reasoning_content": text})
                case CallPiece():
                    index = self._num_calls - 1  # the generator has counted this piece
                    deltas.append({"tool_calls": [{"index": index} | _with_id(piece)]})
        return deltas

    def finish_reason(self, reason: str | None) -> str | None:
        """Return OpenAI's reason for the end: a call, unless the text was cut off."""
        return "tool_calls" if reason == "stop" and self._num_calls else reason

    def _pieces(self, text: str, is_last: bool) -> Iterator[Piece]:
        for piece in self._parser.feed(text) + (self._parser.finish() if is_last else []):
            is_call = isinstance(piece, CallPiece)
            self._num_calls += is_call
            if piece[0] and not (is_call and self._num_calls > self._most_calls):
                yield piece


def _with_id(call: CallPiece) -> dict[str, Any]:
    call_id = f"call_{secrets.token_hex(12)}"
    return {"id": call_id, "type": "function", "function": call._asdict()}
