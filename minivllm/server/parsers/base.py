"""What parsers return, and the parser for text without any marks.

A parser gets the text in the pieces that the engine generates:

    "Let me look", ". <tool", '_call>{"name": "time", "argum', 'ents": {}}</tool_call>'
    -> TextPiece("Let me look"), TextPiece(". "), CallPiece("time"), ArgumentsPiece("{}")

However the text is cut, the pieces join to the same message. So a stream and a whole answer, which
is parsed in one piece, are the same message.
"""

from typing import NamedTuple, Protocol


class TextPiece(NamedTuple):
    """Some text of the answer."""

    text: str


class ReasoningPiece(NamedTuple):
    """Some text that the model wrote before its answer, between `<think>` and `</think>`."""

    text: str


class CallPiece(NamedTuple):
    """A tool call begins."""

    name: str


class ArgumentsPiece(NamedTuple):
    """Some characters of the last call's arguments."""

    text: str


Piece = TextPiece | ReasoningPiece | CallPiece | ArgumentsPiece


class OutputParser(Protocol):
    """Splits one text. Empty pieces are possible, and mean nothing."""

    def feed(self, text: str) -> list[Piece]:
        """Read the next characters. Return what is certain by now."""

    def finish(self) -> list[Piece]:
        """Return what was held back, at the end of the text."""


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
