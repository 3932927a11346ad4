"""The requests of all endpoints but chat.

The sampling parameters are the fields of `SamplingParams`, with its types and ranges.
"""

from typing import Annotated, Any, Literal, get_type_hints

from msgspec import Meta, defstruct

from minivllm.errors import InvalidRequestError, InvalidSamplingParamsError
from minivllm.sampling_params import NumLogprobs, SamplingParams
from minivllm.server.protocol.structured_outputs import (
    GrammarFields,
    RequestedGrammar,
    ResponseFormat,
    Strict,
)

MAX_PROMPTS = 64

StopString = Annotated[str, Meta(min_length=1, max_length=256)]
TokenId = Annotated[int, Meta(ge=0, lt=1 << 31)]
Text = Annotated[str, Meta(min_length=1)]
TokenIds = Annotated[list[TokenId], Meta(min_length=1)]
Prompt = Text | Annotated[list[TokenId | Text | TokenIds], Meta(min_length=1)]
MaxTokens = Annotated[int, Meta(ge=1)]
ModelName = Annotated[str, Meta(max_length=256)]
Empty = Annotated[list, Meta(max_length=0)]
"""For parameters of larger servers that some clients always send, with a value that changes
nothing; any other value asks for a feature that we lack.
"""

SAMPLING = (
    "n", "best_of", "min_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty",
    "presence_penalty", "frequency_penalty", "logit_bias", "seed", "stop", "stop_token_ids",
    "include_stop_str_in_output", "ignore_eos", "skip_special_tokens", "use_beam_search",
    "length_penalty", "early_stopping",
)  # fmt: skip
"""The fields of `SamplingParams` that a request passes on as they are."""
_TYPES = get_type_hints(SamplingParams, include_extras=True) | {
    # Narrower than for Python callers, because these cost time in every step.
    "stop": StopString | Annotated[list[StopString], Meta(max_length=4)],
    "stop_token_ids": Annotated[list[TokenId], Meta(max_length=64)],
    "logit_bias": Annotated[
        dict[TokenId, Annotated[float, Meta(ge=-100, le=100)]], Meta(max_length=1024)
    ],
    "top_k": Annotated[int, Meta(ge=-1, lt=1 << 31)],
}


class _Converts(GrammarFields):
    def sampling_params(self, **more: Any) -> SamplingParams:
        """Convert to the engine's parameters. more: those that an endpoint has in its own way"""
        given = {name: value for name in SAMPLING if (value := getattr(self, name)) is not None}
        grammar = self.requested_grammar()
        try:
            form = None if grammar is None else grammar.params
            return SamplingParams(**given, structured_outputs=form, **more)
        except InvalidSamplingParamsError as error:
            raise error if grammar is None else grammar.with_clients_names(error) from None


SamplingFields: Any = defstruct(
    "SamplingFields", [(name, _TYPES[name] | None, None) for name in SAMPLING], bases=(_Converts,)
)
"""The sampling parameters of every endpoint."""


class StreamOptions(Strict):
    """Options for usage counts in a stream."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


class RequestFields(SamplingFields):
    """All parameters that the OpenAI endpoints share."""

    model: ModelName | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    user: Annotated[str, Meta(max_length=512)] | None = None
    """The end user's name, for a provider's records; it has no effect here."""
    priority: Annotated[int, Meta(ge=-(2**31), lt=2**31)] | None = None
    cache_salt: Annotated[str, Meta(min_length=1, max_length=128)] | None = None
    prompt_logprobs: NumLogprobs | None = None
    return_token_ids: bool | None = None
    request_id: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{1,64}$")] | None = None
    """The client's name for the request; it becomes part of the answer's id."""
    response_format: ResponseFormat | None = None
    truncate_prompt_tokens: None = None
    allowed_token_ids: None = None
    bad_words: Empty | None = None
    spaces_between_special_tokens: bool | None = None

    def __post_init__(self) -> None:
        if self.spaces_between_special_tokens is False:
            raise ValueError("spaces_between_special_tokens cannot be false: leave it out.")
        if not self.stream and self.stream_options is not None:
            raise ValueError("stream_options needs stream: set stream to true, or leave it out.")
        if self.stream and self.prompt_logprobs is not None:
            raise ValueError("prompt_logprobs cannot be streamed: leave it or stream out.")

    def all_requested(self) -> list[RequestedGrammar]:
        given = self.response_format
        return [*(given.requested() if given is not None else ()), *super().all_requested()]


class CompletionRequest(RequestFields, kw_only=True):
    """`/v1/completions` as OpenAI defined it, with vLLM's extras."""

    prompt: Prompt
    echo: bool | None = None
    """Return the prompt before the text; with `logprobs`, return the prompt's too."""
    logprobs: NumLogprobs | None = None
    max_tokens: Annotated[int, Meta(ge=0)] | None = None
    """0 is allowed with `echo`, and returns only the prompt with its log-probabilities."""
    add_special_tokens: bool | None = None
    """Add the model's special tokens to a text prompt; default: yes."""
    suffix: Literal[""] | None = None

    def prompts(self) -> list[str | list[int]]:
        """Return a list of prompts, even for a single one. Raises `InvalidRequestError`."""
        given = [self.prompt] if isinstance(self.prompt, str) else self.prompt
        kinds = set(map(type, given))
        if len(kinds) > 1:
            raise InvalidRequestError(
                "prompt mixes strings and token ids: send a list of strings, or of lists of ids."
            )
        if kinds == {int}:
            return [given]
        if len(given) > MAX_PROMPTS:
            raise InvalidRequestError(
                f"prompt is a list of {len(given)} prompts; send at most {MAX_PROMPTS} at once."
            )
        return given


class GenerateRequest(SamplingFields, kw_only=True):
    """Request of vLLM's first server: a prompt, `stream`, and sampling parameters."""

    prompt: Text
    stream: bool | None = None
    max_tokens: MaxTokens | None = None
    logprobs: NumLogprobs | None = None
    """Accepted, as in vLLM's first server, but the answer has no field for log-probabilities."""


class DetokenizeRequest(Strict):
    """Token ids to convert to text."""

    tokens: list[TokenId]
    model: ModelName | None = None
