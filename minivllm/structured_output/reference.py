"""A grammar in plain Python: a regular expression, and which tokens it allows next.

A state is what is left of the expression. Reading a byte takes the byte off the front:

    state          byte    next state
    (yes|no)+      n       o(yes|no)*
    o(yes|no)*     o       (yes|no)*       the text may end here
    (yes|no)*      x       nothing         refused

A token is allowed if its bytes, read one after the other, do not lead to *nothing*. llguidance
finds the same tokens, but walks a tree of the vocabulary, and knows grammars with recursion.

It knows characters, classes such as `[a-z]`, groups, `|`, `*`, `+`, `?`, `{m}`, `{m,}` and `{m,n}`.
A range names ASCII characters only.

Source: Brzozowski, "Derivatives of Regular Expressions" (1964).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache, reduce
from re import _parser
from re._constants import MAXREPEAT
from typing import Any

from minivllm import runtime


@dataclass(frozen=True, slots=True)
class _Byte:
    """One byte of a set."""

    options: frozenset[int]


@dataclass(frozen=True, slots=True)
class _Either:
    """One of several expressions. Of none: nothing fits."""

    options: frozenset[RegexState]


@dataclass(frozen=True, slots=True)
class _Then:
    first: RegexState
    rest: RegexState


@dataclass(frozen=True, slots=True)
class _Repeat:
    """Any number of times, also 0 times."""

    inner: RegexState


RegexState = _Byte | _Either | _Then | _Repeat

NOTHING: RegexState = _Either(frozenset())
"""No text fits."""
_END: RegexState = _Repeat(NOTHING)
"""Only the empty text fits."""


class RegexAutomaton:
    """Reads bytes and says what may follow. Raises `ValueError` for a pattern that it cannot read.

    All states but `NOTHING` can reach an end: no rule below leaves an expression without a text.
    """

    def __init__(self, pattern: str) -> None:
        try:
            self.start: RegexState = _read(_parser.parse(pattern))
        except (re.error, ValueError) as error:
            raise ValueError(f"This automaton cannot read {pattern!r} ({error}).") from None

    def advance(self, state: RegexState, data: bytes) -> RegexState:
        """Return the state after reading `data`; `NOTHING` if the expression refuses it."""
        return reduce(_after, data, state)

    def may_end(self, state: RegexState) -> bool:
        """Whether the text read so far fits the whole expression."""
        return _may_end(state)

    def allowed_tokens(
        self,
        state: RegexState,
        vocabulary: Sequence[bytes | None],
        eos_token_ids: Collection[int] = (),
    ) -> list[int]:
        """Return the ids of the tokens that may come next, in order.

        vocabulary: as `vocabulary_bytes` returns it; eos_token_ids: allowed where the text may end
        """
        allowed = [
            token_id
            for token_id, data in enumerate(vocabulary)
            if data and self.advance(state, data) != NOTHING
        ]
        return sorted([*allowed, *eos_token_ids]) if self.may_end(state) else allowed


def vocabulary_bytes(tokenizer: runtime.Tokenizer) -> list[bytes | None]:
    """Return the bytes that each token adds to a text; None for special tokens."""

    def bytes_of(token_id: int) -> bytes | None:
        if tokenizer.is_silent(token_id, skip_special_tokens=True):
            return None
        # `piece` writes a byte of an incomplete character as <0xE2>.
        text, *others = re.split(r"<0x([0-9A-F]{2})>", tokenizer.piece(token_id))
        pairs = zip(others[::2], others[1::2], strict=True)
        return text.encode() + b"".join(bytes.fromhex(raw) + after.encode() for raw, after in pairs)

    return [bytes_of(token_id) for token_id in range(tokenizer.vocab_size)]


def bitmask(token_ids: Collection[int], vocab_size: int) -> bytes:
    """Return the allowed tokens as bits, one for each token of the vocabulary.

    Token 0 is the lowest bit of the first byte. There are as many bytes as all tokens need.
    """
    mask = bytearray(-(-vocab_size // 8))
    for token_id in token_ids:
        mask[token_id // 8] |= 1 << token_id % 8
    return bytes(mask)


# ---- reading a byte ----


@lru_cache(maxsize=100_000)
def _after(state: RegexState, byte: int) -> RegexState:
    """Return what is left of an expression after its text began with `byte`."""
    match state:
        case _Byte(options):
            return _END if byte in options else NOTHING
        case _Either(options):
            return _either([_after(option, byte) for option in options])
        case _Then(first, rest):
            left = _then(_after(first, byte), rest)
            return _either([left, _after(rest, byte)]) if _may_end(first) else left
        case _Repeat(inner):
            return _then(_after(inner, byte), state)


def _may_end(state: RegexState) -> bool:
    """Whether the empty text fits what is left of an expression."""
    match state:
        case _Byte():
            return False
        case _Either(options):
            return any(_may_end(option) for option in options)
        case _Then(first, rest):
            return _may_end(first) and _may_end(rest)
        case _Repeat():
            return True


def _either(options: list[RegexState]) -> RegexState:
    """Equal options become one, so an automaton has finitely many states."""
    flat: set[RegexState] = set()
    for option in options:
        flat |= option.options if isinstance(option, _Either) else {option}
    return flat.pop() if len(flat) == 1 else _Either(frozenset(flat))


def _then(first: RegexState, rest: RegexState) -> RegexState:
    if NOTHING in (first, rest):
        return NOTHING
    if first == _END:
        return rest
    return first if rest == _END else _Then(first, rest)


# ---- reading a pattern ----


def _chain(*parts: RegexState) -> RegexState:
    return reduce(lambda rest, part: _then(part, rest), reversed(parts), _END)


def _read(pattern: Iterable[tuple[Any, Any]]) -> RegexState:
    """Read a pattern that Python's own parser has cut into parts: (operation, its operands)."""
    return _chain(*(_read_part(operation.name, value) for operation, value in pattern))


def _read_part(operation: str, value: Any) -> RegexState:
    match operation, value:
        case "LITERAL", code:
            return _chain(*(_Byte(frozenset([byte])) for byte in chr(code).encode()))
        case "RANGE", (first, last) if last < 0x80:
            return _Byte(frozenset(range(first, last + 1)))
        case "IN", members:
            return _either([_read_part(kind.name, value) for kind, value in members])
        case "BRANCH", (_, patterns):
            return _either([_read(pattern) for pattern in patterns])
        case "SUBPATTERN", (_, 0, 0, inner):
            return _read(inner)
        case "MAX_REPEAT", (least, most, inner):
            body = _read(inner)
            rest = _Repeat(body) if most == MAXREPEAT else _END
            for _ in range(0 if most == MAXREPEAT else most - least):
                rest = _either([_then(body, rest), _END])
            return _chain(*[body] * least, rest)
    raise ValueError(f"{operation} {value!r}")
