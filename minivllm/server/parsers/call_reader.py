"""`CallReader`: one call, `{"name": ..., "arguments": {...}}`, while it is generated.

Models write the name first. Then the arguments can be passed on as they are written, character by
character. If the keys have another order, the call is held back until it is complete.
"""

import re
from typing import TypeVar

import msgspec

from minivllm.server.parsers.base import ArgumentsPiece, CallPiece, Piece

T = TypeVar("T")

_NAME_FIRST = re.compile(
    r'\s*\{\s*"name"\s*:\s*("(?:[^"\\]|\\.)+")\s*,\s*"(?:arguments|parameters)"\s*:\s*(?=\{)'
)
_LONGEST_BEGINNING = 1024
"""The name is not searched for behind this, so that reading takes linear time."""

_LIKE_A_CALL = re.compile(r'\s*(\{\s*("|$)|$)')


class CallReader:
    def __init__(self) -> None:
        self.is_complete = False
        self.is_broken = False
        """Whether this is not a call. Then `rest` is the whole text, and no piece was returned."""
        self.rest = ""
        """The text behind a complete call."""
        self._held = ""
        self._passes_arguments = False
        self._call = _ObjectEnd()
        self._arguments = _ObjectEnd()

    def feed(self, text: str) -> list[Piece]:
        self._held += text
        if not self._passes_arguments and self._held.lstrip()[:1] not in ("", "{"):
            return self._break()
        pieces: list[Piece] = []
        end = self._call.find(text)
        behind = 0 if end is None else len(text) - end
        if not self._passes_arguments and len(self._held) - len(text) < _LONGEST_BEGINNING:
            pieces += self._begin()
        if self._passes_arguments:
            pieces += self._pass_arguments()
        if end is not None:
            if not self._passes_arguments:
                pieces += self._read_whole(self._held[: len(self._held) - behind])
            if not self.is_broken:
                self.is_complete, self.rest = True, text[end:]
        return pieces

    def finish(self, has_calls: bool) -> list[Piece]:
        """The text has ended inside the call. Only a call that has begun stays a call.

        has_calls: drop the beginning of another one, because a client shows content
        """
        if has_calls and _LIKE_A_CALL.match(self._held):
            return []
        return [] if self._passes_arguments else self._break()

    def _begin(self) -> list[Piece]:
        found = _NAME_FIRST.match(self._held, 0, _LONGEST_BEGINNING)
        if found is None or not (name := _parsed(found[1], str)):
            return []
        self._held = self._held[found.end() :]
        self._passes_arguments = True
        return [CallPiece(name)]

    def _pass_arguments(self) -> list[Piece]:
        if self._arguments.is_over:
            return []
        end = self._arguments.find(self._held)
        passed, self._held = self._held[:end], ""
        return [ArgumentsPiece(passed)]

    def _read_whole(self, text: str) -> list[Piece]:
        call = _parsed(text, dict) or {}
        name, arguments = call.get("name"), call.get("arguments", call.get("parameters"))
        if isinstance(arguments, dict):
            arguments = msgspec.json.encode(arguments).decode()
        # Otherwise a string: some models write the object as text.
        if not name or not isinstance(name, str) or not isinstance(arguments, str):
            return self._break()
        return [CallPiece(name), ArgumentsPiece(arguments)]

    def _break(self) -> list[Piece]:
        self.is_broken, self.rest = True, self._held
        return []


class _ObjectEnd:
    """Finds where a JSON object ends, by its brackets."""

    def __init__(self) -> None:
        self.is_over = False
        self._depth = 0
        self._in_string = self._is_escaped = False

    def find(self, text: str) -> int | None:
        """Read the next characters. Return the index after the object's end in them, or None."""
        for index, character in enumerate(text):
            if self._in_string:
                if self._is_escaped:
                    self._is_escaped = False
                elif character == "\\":
                    self._is_escaped = True
                elif character == '"':
                    self._in_string = False
            elif character == '"':
                self._in_string = True
            elif character in "{[":
                self._depth += 1
            elif character in "}]":
                self._depth -= 1
                if self._depth <= 0:
                    self.is_over = True
                    return index + 1
        return None


def _parsed(text: str, kind: type[T]) -> T | None:
    """Return the value of a JSON text; None if it is damaged or of another type."""
    try:
        return msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, RecursionError):
        return None
