"""Results: a `SampledToken` from the model runner, a `RequestOutput` from the engine.

Names and meanings are vLLM's (`vllm/outputs.py`). Changing a result does not affect the engine.
"""

from dataclasses import dataclass
from typing import Any

from minivllm.errors import RequestFailedError


@dataclass(slots=True)
class Logprob:
    """A token's log-probability at one position, before temperature and penalties.

    vLLM calls these `raw_logprobs`.
    """

    logprob: float
    """Natural logarithm of the probability."""
    rank: int
    """1 for the most likely token. Among equally likely tokens, the lower id is first."""
    decoded_token: str = ""
    """Text of the token alone, set by the output processor."""


@dataclass(slots=True)
class SampledToken:
    """The next token of a sequence."""

    token_id: int
    logprobs: dict[int, Logprob] | None = None
    """By token id, if requested: the sampled token, then the k best other tokens, best first."""
    explanation: Any = None
    """Why the token was chosen (`runtime.Explanation`); None unless the sequence is watched."""


@dataclass(frozen=True, slots=True)
class PromptTokenLogprob:
    """Log-probabilities at one position of a prompt."""

    seq_id: str
    position: int
    """Position in the prompt, 1 or more: the first token has no log-probability."""
    logprobs: dict[int, Logprob]
    """By token id: first the prompt's own token, then the other k best tokens in order."""


@dataclass(slots=True)
class CompletionOutput:
    """One generated sequence.

    `text` has no stop string (unless requested) and no unfinished character. `token_ids` has every
    sampled token, including end-of-sequence.
    """

    index: int
    """Number of this output within its request, from 0."""
    text: str
    """The generated text, without the prompt."""
    token_ids: list[int]
    """All sampled tokens."""
    cumulative_logprob: float | None = None
    """Sum of the tokens' log-probabilities. None if it was neither requested nor needed."""
    logprobs: list[dict[int, Logprob]] | None = None
    """For each output token: token id -> Logprob, the sampled token first. None: not requested."""
    finish_reason: str | None = None
    """"stop", "length" or "abort"; None while the sequence is unfinished."""
    stop_reason: int | str | None = None
    """The stop token id or the stop string; None for end-of-sequence and length."""


@dataclass(slots=True)
class RequestOutput:
    """The state of one request after a step.

    With the output kind `DELTA`, `outputs` has only texts and tokens since the last output.
    """

    request_id: str
    """The id that the caller gave."""
    prompt: str | None
    """Text of the prompt; None if only token ids were given."""
    prompt_token_ids: list[int]
    """Token ids of the prompt, as the model gets them."""
    outputs: list[CompletionOutput]
    """The `n` outputs in the order of `index`. With `DELTA`, only outputs with something new."""
    finished: bool
    """Whether this is the last output of the request."""
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    """For each prompt token: token id -> Logprob, the prompt's own token first. The entry of the
    first token is None, and so are entries that are not computed yet. None: not requested.
    """
    error: str | None = None
    """Why the request failed; None if it did not. If it failed, `finished` is true, `outputs` has
    what was generated, and `finish_reason` is "abort".
    """
    error_type: type[RequestFailedError] = RequestFailedError
    """The exception to raise for `error`."""
    num_cached_tokens: int = 0
    """Prompt tokens that were found in the prefix cache at admission."""
