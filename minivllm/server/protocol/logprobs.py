"""Log-probabilities in OpenAI's two formats: parallel lists (completions), nested objects (chat).

Completions list the alternatives by text, and two tokens can have the same text (each half of a
character reads U+FFFD). Then only the likelier token is kept, so the best alternative is never
lost.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from minivllm.outputs import Logprob

_LEAST = -9999.0
"""OpenAI's value for "practically impossible"; JSON has no minus infinity."""

Position = dict[int, Logprob]
"""Token id -> log-probability. The token at this position is first."""


def completion_logprobs(
    positions: Iterable[tuple[int, Position | None]], offset: int, decode: Callable[..., str]
) -> dict[str, list[Any]]:
    """Convert to OpenAI's four parallel lists.

    positions: each token's id, and the log-probabilities at its position; None for the first token
        of a prompt, because no token predicts it
    offset: index in the answer's text at which the first token starts
    decode: `Tokenizer.decode`
    """
    tokens, values, top, offsets = [], [], [], []
    for token_id, position in positions:
        token = position[token_id].decoded_token if position else decode([token_id], False)
        tokens.append(token)
        offsets.append(offset)
        offset += len(token)
        values.append(None if position is None else _value(position[token_id]))
        top.append(None if position is None else _by_text(position))
    return {"tokens": tokens, "token_logprobs": values, "top_logprobs": top, "text_offset": offsets}


def chat_logprobs(
    token_ids: Sequence[int], positions: Sequence[Position], num_top: int
) -> dict[str, list[Any]]:
    """Return one object for each of `token_ids`, with its `num_top` likeliest alternatives."""
    content = []
    for token_id, position in zip(token_ids, positions, strict=True):
        best = sorted(position.values(), key=lambda entry: entry.rank)[:num_top]
        content.append({**_named(position[token_id]), "top_logprobs": list(map(_named, best))})
    return {"content": content}


def prompt_logprobs(positions: Sequence[Position | None]) -> list[dict[int, Any] | None]:
    """Return vLLM's objects for each prompt token; None for the first."""
    return [
        position
        and {
            token_id: {
                "logprob": _value(entry),
                "rank": entry.rank,
                "decoded_token": entry.decoded_token,
            }
            for token_id, entry in position.items()
        }
        for position in positions
    ]


def _by_text(position: Position) -> dict[str, float]:
    texts: dict[str, float] = {}
    for entry in position.values():
        texts[entry.decoded_token] = max(_value(entry), texts.get(entry.decoded_token, _LEAST))
    return texts


def _named(entry: Logprob) -> dict[str, Any]:
    token = entry.decoded_token
    # If the token is only part of a character, its text does not give its bytes.
    known = None if "\N{REPLACEMENT CHARACTER}" in token else list(token.encode())
    return {"token": token, "logprob": _value(entry), "bytes": known}


def _value(entry: Logprob) -> float:
    return max(entry.logprob, _LEAST)
