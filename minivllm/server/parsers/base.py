"""What parsers return, and the parser for text without any marks.

A parser gets the text in the pieces that the engine generates:

    "Let me look", ". <tool", '_call>{"name": "time", "argum', 'ents": {}}</tool_call>'
    -> TextPiece("Let me look"), TextPiece(". "), CallPiece("time", "{}")

However the text is cut, the pieces join to the same message. So a stream and a whole answer, which
is parsed in one piece, are the same message.
"""

import re
from typing import Annotated, NamedTuple, Protocol

import msgspec

_LIKE_A_CALL = re.compile(r'\s*(\{\s*("|$)|$)')


class TextPiece(NamedTuple):
    """Some text of the answer."""

    text: str


class ReasoningPiece(NamedTuple):
    """Some text that the model wrote before its answer, between `<think>` and `</think>`."""

    text: str


class CallPiece(NamedTuple):
    """A whole tool call. The arguments are JSON, as the model wrote it."""

    name: str
    arguments: str


Piece = TextPiece | ReasoningPiece | CallPiece


class OutputParser(Protocol):
    """Splits one text. Empty pieces are possible, and mean nothing."""

    def feed(self, text: str) -> list[Piece]:
        """Read the next characters. Return what is certain by now."""

    def finish(self) -> list[Piece]:
        """Return what was held back, at the end of the text."""


class _Call(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]
    arguments: msgspec.Raw = msgspec.Raw()
    parameters: msgspec.Raw = msgspec.Raw()


def read_call(text: str) -> list[Piece]:
    """Read `{"name": ..., "arguments": {...}}`, and keep the arguments as the model wrote them.

    Returns an empty list for a text that is not a call. Some models call the arguments parameters,
    and some write the object as a string.
    """
    try:
        call = msgspec.json.decode(text, type=_Call)
        arguments = bytes(call.arguments or call.parameters).decode()
        if arguments.startswith('"'):
            arguments = msgspec.json.decode(arguments)
    except (msgspec.MsgspecError, RecursionError):
        return []
    return [CallPiece(call.name, arguments)] if arguments.startswith("{") else []


def begins_like_a_call(text: str) -> bool:
    """Whether a text that has ended may be the beginning of a call, or is only white space.

    After a call, such a beginning is dropped, because a client shows content.
    """
    return _LIKE_A_CALL.match(text) is not None


class PlainTextParser:
    """All text is content."""

    def feed(self, text: str) -> list[Piece]:
        return [TextPiece(text)]

    def finish(self) -> list[Piece]:
        return []


def length_without_mark(text: str, mark: str) -> int:
    """Return how many characters of `text` are certainly no part of `mark`, which is not in it.

    "a < <tool" with the mark "<tool_call>" gives 4: the end may become the mark.
    """
    for length in range(min(len(text), len(mark) - 1), 0, -1):
        if text.endswith(mark[:length]):
            return len(text) - length
    return len(text)
