"""Prompts as callers may give them, and how each becomes token ids.

Knows no limits (`request_validation` does): only what kind of thing a prompt is. The easy thing to get wrong
is a prompt of token ids with a text beside it: the text is there to be shown, and tokenizing it would give
the model something other than what was asked.

Source of the shapes: vLLM `vllm/inputs/`.
"""

from __future__ import annotations

from operator import index
from typing import TYPE_CHECKING, NotRequired, TypedDict

from minivllm.errors import InvalidRequestError

if TYPE_CHECKING:
    from minivllm.runtime.tokenizer import Tokenizer


class TextPrompt(TypedDict):
    """A prompt as text; the engine tokenizes it."""

    prompt: str


class TokensPrompt(TypedDict):
    """A prompt as token ids, taken as they are; `prompt` is the text they stand for, to be shown and never tokenized."""

    prompt_token_ids: list[int]
    prompt: NotRequired[str]


Prompt = str | TextPrompt | TokensPrompt


def read_prompt(prompt: Prompt, tokenizer: Tokenizer) -> tuple[str | None, list[int]]:
    """The text, if there is one, and the token ids of a prompt. Raises `InvalidRequestError` if it is none."""
    if isinstance(prompt, dict) and "prompt_token_ids" in prompt:
        return prompt.get("prompt"), _as_token_ids(prompt["prompt_token_ids"])
    text = prompt.get("prompt") if isinstance(prompt, dict) else prompt
    if not isinstance(text, str):
        raise InvalidRequestError(
            f'A prompt is text, {{"prompt": text}} or {{"prompt_token_ids": list of ids}}; got {prompt!r}.'
        )
    return text, tokenizer.encode(text)


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
