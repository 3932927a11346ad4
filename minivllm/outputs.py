"""What is handed up: a `SampledToken` by the model runner, a `RequestOutput` by the engine.

A `RequestOutput` has one `CompletionOutput` for each sequence; names and meanings are vLLM's
(`vllm/outputs.py`). Plain data: making one never touches the engine, and changing one changes
nothing there.
"""

from dataclasses import dataclass


@dataclass(slots=True)
class Logprob:
    """One token's log-probability at one position, before temperature and penalties (vLLM's
    `raw_logprobs`).
    """

    logprob: float
    """Natural logarithm of the probability."""
    rank: int
    """1 is the most likely token; of equally likely ones the lower id comes first."""
    decoded_token: str = ""
    """The token's own text, which the output processor fills in."""


@dataclass(slots=True)
class SampledToken:
    """A sequence's next token."""

    token_id: int
    logprobs: dict[int, Logprob] | None = None
    """By token id, if asked for: the sampled token first, then the others of the k best, best
    first.
    """


@dataclass(frozen=True, slots=True)
class PromptTokenLogprob:
    """What the model thought of one token of a prompt."""

    seq_id: str
    position: int
    """1 or more: nothing comes before the first token."""
    logprobs: dict[int, Logprob]
    """By token id: the token itself first, then the others of the k best, best first."""


@dataclass(slots=True)
class CompletionOutput:
    """One generated sequence.

    `text` never holds a stop string (unless asked to) nor half a character; `token_ids` keeps every
    token that was sampled, the end-of-sequence token too.
    """

    index: int
    """Which of the request's outputs, from 0."""
    text: str
    """What was generated, without the prompt."""
    token_ids: list[int]
    """The output's tokens, as many as were sampled."""
    cumulative_logprob: float | None = None
    """Sum of the tokens' log-probabilities; None where none were asked for or needed."""
    logprobs: list[dict[int, Logprob]] | None = None
    """For each output token: token id -> Logprob, the sampled token first."""
    finish_reason: str | None = None
    """None while running, then "stop", "length" or "abort"."""
    stop_reason: int | str | None = None
    """The stop token id or stop string that ended it; None for end-of-sequence and length."""


@dataclass(slots=True)
class RequestOutput:
    """Where one request stands after a step. With the output kind `DELTA` texts and tokens are
    those since the last one.
    """

    request_id: str
    """The name that it was added under."""
    prompt: str | None
    """Its text; None if it came as token ids alone."""
    prompt_token_ids: list[int]
    """The prompt as the model reads it."""
    outputs: list[CompletionOutput]
    """As many as `n` asks for, by `index`; fewer while there is nothing to tell of some."""
    finished: bool
    """Whether nothing more will come."""
    prompt_logprobs: list[dict[int, Logprob] | None] | None = None
    """If asked for: as `CompletionOutput.logprobs`, for each prompt token; None for the first, and
    while not computed.
    """
    error: str | None = None
    """Why it failed, if it did: then `finished`, with what there was until then, and "abort" as the
    finish_reason.
    """
    num_cached_tokens: int = 0
    """Prompt tokens whose keys and values were found in the prefix cache at admission."""
