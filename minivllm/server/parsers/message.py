"""`MessageParser`: the text of one answer as a chat message, or as the deltas of a stream."""

import math
import secrets
from collections.abc import Iterator

from minivllm.server.parsers.base import (
    ArgumentsPiece,
    CallPiece,
    OutputParser,
    Piece,
    ReasoningPiece,
    TextPiece,
)
from minivllm.server.protocol.chat import AssistantMessage, ChatDelta
from minivllm.server.protocol.tools import CalledFunction, ToolCall


class MessageParser:
    def __init__(self, parser: OutputParser, *, parallel: bool) -> None:
        """parallel: allow several calls; otherwise all but the first are dropped"""
        self._parser = parser
        self._most_calls = math.inf if parallel else 1
        self._num_calls = 0

    def message(self, text: str) -> AssistantMessage:
        """Convert a whole text."""
        message = AssistantMessage(content="")
        calls: list[ToolCall] = []
        for piece in self._pieces(text, is_last=True):
            match piece:
                case TextPiece(text):
                    message.content += text
                case ReasoningPiece(text):
                    message.reasoning_content = (message.reasoning_content or "") + text
                case CallPiece(name):
                    function = CalledFunction(name=name, arguments="")
                    calls.append(ToolCall(id=_new_call_id(), function=function))
                case ArgumentsPiece(text):
                    calls[-1].function.arguments += text
        if calls:
            message.content, message.tool_calls = message.content or None, calls
        return message

    def deltas(self, text: str, *, is_last: bool) -> list[ChatDelta]:
        """Convert the next part of the text."""
        deltas: list[ChatDelta] = []
        for piece in self._pieces(text, is_last):
            index = self._num_calls - 1  # the generator has counted this piece
            match piece:
                case TextPiece(text):
                    deltas.append({"content": text})
                case ReasoningPiece(text):
                    deltas.append({"reasoning_content": text})
                case CallPiece(name):
                    call = {"index": index, "id": _new_call_id(), "type": "function"}
                    call["function"] = {"name": name, "arguments": ""}
                    deltas.append({"tool_calls": [call]})
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


def _new_call_id() -> str:
    return f"call_{secrets.token_hex(12)}"
