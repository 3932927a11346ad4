"""Log-probabilities in OpenAI's two formats: parallel lists (completions), nested objects (chat).

Completions list the alternatives by text, and two tokens can have the same text (each half of a
character reads U+FFFD). Then only the likelier token is kept, so the best alternative is never
lost.
"""

from collections.abc import Iterable, Sequence

from minivllm.outputs import Logprob
from minivllm.server.protocol.base import PromptLogprob, PromptLogprobs
from minivllm.server.protocol.chat import ChatLogprobs, TokenLogprob, TopLogprob
from minivllm.server.protocol.completions import CompletionLogprobs

_LEAST = -9999.0
"""OpenAI's value for "practically impossible"; JSON has no minus infinity."""

Position = dict[int, Logprob]
"""Token id -> log-probability. The token at this position is first."""


def completion_logprobs(
    positions: Iterable[tuple[str, int, Position | None]], offset: int
) -> CompletionLogprobs:
    """Convert to OpenAI's four parallel lists.

    positions: each token's text, its id, and the log-probabilities at its position
    offset: index in the answer's text at which the first token starts
    """
    found = CompletionLogprobs(tokens=[], token_logprobs=[], top_logprobs=[], text_offset=[])
    for token, token_id, position in positions:
        found.tokens.append(token)
        found.text_offset.append(offset)
        offset += len(token)
        found.token_logprobs.append(None if position is None else _value(position[token_id]))
        found.top_logprobs.append(None if position is None else _by_text(position))
    return found


def chat_logprobs(
    token_ids: Sequence[int], positions: Sequence[Position], num_top: int
) -> ChatLogprobs:
    """Return one object for each of `token_ids`, with its `num_top` likeliest alternatives."""
    content = []
    for token_id, position in zip(token_ids, positions, strict=True):
        best = sorted(position.values(), key=lambda entry: entry.rank)[:num_top]
        top = [TopLogprob(**_named(entry)) for entry in best]
        content.append(TokenLogprob(**_named(position[token_id]), top_logprobs=top))
    return ChatLogprobs(content=content)


def prompt_logprobs(positions: Sequence[Position | None]) -> PromptLogprobs:
    """Return one item per prompt token; None for the first token, because no token predicts it."""
    return [
        (
            None
            if position is None
            else {
                token_id: PromptLogprob(
                    logprob=_value(entry), rank=entry.rank, decoded_token=entry.decoded_token
                )
                for token_id, entry in position.items()
            }
        )
        for position in positions
    ]


def _by_text(position: Position) -> dict[str, float]:
    texts: dict[str, float] = {}
    for entry in position.values():
        texts[entry.decoded_token] = max(_value(entry), texts.get(entry.decoded_token, _LEAST))
    return texts


def _named(entry: Logprob) -> dict:
    token = entry.decoded_token
    known = None if "\N{REPLACEMENT CHARACTER}" in token else list(token.encode())
    return {"token": token, "logprob": _value(entry), "bytes": known}


def _value(entry: Logprob) -> float:
    return max(entry.logprob, _LEAST)
