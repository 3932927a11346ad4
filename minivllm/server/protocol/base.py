"""What the requests of all endpoints share: strict fields and vLLM's sampling parameters.

Unknown parameters are refused, because an answer that ignores a parameter is wrong. Types are
strict: `"5"` is not a number, and `true` is not 1. Clients send null for "not set", so every field
accepts null; `SamplingParams` then uses its default.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field, StringConstraints

from minivllm.errors import InvalidSamplingParamsError
from minivllm.sampling_params import RequestOutputKind, SamplingParams
from minivllm.server.protocol.neutral import Null, NullOrEmpty, neutral
from minivllm.server.protocol.strict import Strict
from minivllm.server.protocol.structured_outputs import (
    GrammarFields,
    RequestedGrammar,
    ResponseFormat,
)

MAX_N = 16
MAX_LOGPROBS = 20
MAX_TOKENS = 1 << 20

StopString = Annotated[str, StringConstraints(min_length=1, max_length=256)]
TokenId = Annotated[int, Field(ge=0, lt=1 << 31)]
TokenIdText = Annotated[str, StringConstraints(pattern=r"^[0-9]{1,9}$")]
LogitBias = Annotated[float, Field(ge=-100, le=100)]

UsedAsTheyAre = (
    "n", "best_of", "min_tokens", "temperature", "top_p", "top_k", "min_p", "repetition_penalty",
    "presence_penalty", "frequency_penalty", "seed", "stop", "stop_token_ids",
    "include_stop_str_in_output", "ignore_eos", "skip_special_tokens", "use_beam_search",
    "length_penalty", "early_stopping",
)  # fmt: skip


class SamplingFields(GrammarFields):
    """The sampling parameters of every endpoint, with the ranges of `SamplingParams`."""

    n: int | None = Field(None, ge=1, le=MAX_N)
    best_of: int | None = Field(None, ge=1, le=MAX_N)
    use_beam_search: bool | None = None
    length_penalty: float | None = Field(None, ge=-10, le=10)
    early_stopping: bool | Literal["never"] | None = None
    max_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS)
    min_tokens: int | None = Field(None, ge=0, le=MAX_TOKENS)
    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = Field(None, gt=0, le=1)
    top_k: int | None = Field(None, ge=-1, lt=1 << 31)
    min_p: float | None = Field(None, ge=0, le=1)
    repetition_penalty: float | None = Field(None, ge=0.01, le=100)
    presence_penalty: float | None = Field(None, ge=-2, le=2)
    frequency_penalty: float | None = Field(None, ge=-2, le=2)
    logit_bias: dict[TokenIdText, LogitBias] | None = Field(None, max_length=1024)
    seed: int | None = Field(None, ge=-(2**63), le=2**63 - 1)
    stop: StopString | Annotated[list[StopString], Field(max_length=4)] | None = None
    stop_token_ids: list[TokenId] | None = Field(None, max_length=64)
    include_stop_str_in_output: bool | None = None
    ignore_eos: bool | None = None
    skip_special_tokens: bool | None = None
    spaces_between_special_tokens: neutral(True) = None
    allowed_token_ids: Null = None
    bad_words: NullOrEmpty = None

    def sampling_params(
        self,
        *,
        max_tokens: int,
        logprobs: int | None,
        kind: RequestOutputKind,
        prompt_logprobs: int | None = None,
    ) -> SamplingParams:
        """Convert to the engine's parameters; raise `InvalidSamplingParamsError` on conflicts."""
        given: dict[str, Any] = {
            name: value for name in UsedAsTheyAre if (value := getattr(self, name)) is not None
        }
        if self.logit_bias:
            given["logit_bias"] = {
                int(token_id): bias for token_id, bias in self.logit_bias.items()
            }
        grammar = self.requested_grammar()
        try:
            return SamplingParams(
                **given,
                max_tokens=max_tokens,
                logprobs=logprobs,
                prompt_logprobs=prompt_logprobs,
                structured_outputs=None if grammar is None else grammar.params,
                output_kind=kind,
            )
        except InvalidSamplingParamsError as error:
            raise error if grammar is None else grammar.with_clients_names(error) from None


class RequestFields(SamplingFields):
    """All parameters that the OpenAI endpoints share."""

    model: Annotated[str, StringConstraints(max_length=256)] | None = None
    stream: bool | None = None
    stream_options: "StreamOptions | None" = None
    user: Annotated[str, StringConstraints(max_length=512)] | None = None
    """The end user's name, for a provider's records; it has no effect here."""
    priority: int | None = Field(None, ge=-(2**31), lt=2**31)
    cache_salt: Annotated[str, StringConstraints(min_length=1, max_length=128)] | None = None
    prompt_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    return_token_ids: bool | None = None
    request_id: Annotated[str, StringConstraints(pattern=r"^[A-Za-z0-9._-]{1,64}$")] | None = None
    """The client's name for the request; it becomes part of the answer's id."""
    truncate_prompt_tokens: Null = None
    response_format: ResponseFormat | None = None

    def all_requested(self) -> list[RequestedGrammar]:
        given = self.response_format
        return [*(given.requested() if given is not None else ()), *super().all_requested()]

    @property
    def num_sequences(self) -> int:
        return self.best_of or self.n or 1


class StreamOptions(Strict):
    """Options for usage counts in a stream."""

    include_usage: bool | None = None
    continuous_usage_stats: bool | None = None


RequestFields.model_rebuild()


class PromptLogprob(BaseModel):
    """Log-probability and rank of a prompt token, in vLLM's format."""

    logprob: float
    rank: int
    decoded_token: str


PromptLogprobs = list[dict[int, PromptLogprob] | None]
"""For each prompt token: token id -> log-probability, with the prompt's own token first. For the
prompt's first token: None.
"""


class PromptTokensDetails(BaseModel):
    """How many prompt tokens had their keys and values in the prefix cache."""

    cached_tokens: int


class Usage(BaseModel):
    """Token counts of an answer."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: PromptTokensDetails
