"""Prompts as callers may give them, and how each becomes token ids.

Knows no limits (`request_validation` does): only what kind of thing a prompt is. The easy thing to get wrong
is a prompt of token ids with a text beside it: the text is there to be shown, and tokenizing it would give
the model something other than what was asked.

Source of the shapes: vLLM `vllm/inputs/`.
"""

from __future__ import annotations

from operator import index
from reprlib import repr as short_repr
from typing import TYPE_CHECKING, NamedTuple, NotRequired, TypedDict

from minivllm.errors import InvalidRequestError

if TYPE_CHECKING:
    from minivllm.runtime.text.tokenizer import Tokenizer


class TextPrompt(TypedDict):
    """A prompt as text; the engine tokenizes it."""

    prompt: str
    cache_salt: NotRequired[str]
    """Prompts with different salts never share a block: keeps one user from finding out, by time, what another sent."""


class TokensPrompt(TypedDict):
    """A prompt as token ids, taken as they are; `prompt` is the text they stand for, to be shown and never tokenized."""

    prompt_token_ids: list[int]
    prompt: NotRequired[str]
    cache_salt: NotRequired[str]


Prompt = str | TextPrompt | TokensPrompt


class ReadPrompt(NamedTuple):
    """A prompt as the engine takes it."""

    text: str | None
    token_ids: list[int]
    cache_salt: str | None


def read_prompt(prompt: Prompt, tokenizer: Tokenizer) -> ReadPrompt:
    """What a caller's prompt says. Raises `InvalidRequestError` if it is none."""
    fields = prompt if isinstance(prompt, dict) else {"prompt": prompt}
    if unknown := sorted(map(str, fields.keys() - TokensPrompt.__annotations__.keys())):
        known = ", ".join(TokensPrompt.__annotations__)
        raise InvalidRequestError(f"A prompt has no field {unknown[0]!r}: its fields are {known}.")
    text, salt = fields.get("prompt"), fields.get("cache_salt")
    if salt is not None and (not isinstance(salt, str) or not salt):
        raise InvalidRequestError(f"cache_salt must be a non-empty string; got {short_repr(salt)}.")
    if "prompt_token_ids" in fields:
        return ReadPrompt(text, _as_token_ids(fields["prompt_token_ids"]), salt)
    if not isinstance(text, str):
        # The usual mistake is a bare list of ids, and it may be thousands long.
        raise InvalidRequestError(
            'A prompt is text, {"prompt": text} or {"prompt_token_ids": ids}, so put a bare list of ids into the last of '
            f"these; got {short_repr(prompt)}."
        )
    return ReadPrompt(text, tokenizer.encode(text), salt)


def _as_token_ids(given: object) -> list[int]:
    """A list of plain ints from whatever holds whole numbers (a list, a tuple, a numpy array)."""
    try:
        # `index` takes every kind of whole number and no float; True and False are mistakes, not 1 and 0.
        return [_not_a_bool(one) for one in given]
    except TypeError:
        raise InvalidRequestError(f"prompt_token_ids must be a list of whole numbers; got {given!r:.200}.") from None


def _not_a_bool(value: object) -> int:
    if isinstance(value, bool):
        raise TypeError
    return index(value)
