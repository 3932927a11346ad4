"""`/v1/completions` as OpenAI defined it, with vLLM's extras."""

from typing import Literal

from pydantic import BaseModel, Field

from minivllm.server.protocol.base import (
    MAX_LOGPROBS,
    MAX_TOKENS,
    PromptLogprobs,
    RequestFields,
    Usage,
)
from minivllm.server.protocol.neutral import neutral
from minivllm.server.protocol.prompts import Prompts


class CompletionRequest(RequestFields):
    """Complete each prompt `n` times."""

    prompt: Prompts
    echo: bool | None = None
    """Give the prompt back in front of the text, and with `logprobs` its log-probabilities, too."""
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    max_tokens: int | None = Field(None, ge=0, le=MAX_TOKENS)
    """0 with `echo`: only the prompt, as the model judges it."""
    add_special_tokens: bool | None = None
    """Put around a text what the model wants around one; by default yes."""
    suffix: neutral("") = None


class CompletionLogprobs(BaseModel):
    """Four lists, an item a token. The first token of an echoed prompt has nothing before it, so it
    has nulls.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One text."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: Literal["stop", "length"] | None
    stop_reason: int | str | None = None
    """The stop string or stop token id that ended it, as in vLLM."""
    prompt_logprobs: PromptLogprobs | None = None
    token_ids: list[int] | None = None
    """With `return_token_ids`, as the next; in a stream those of this piece, and the prompt's in
    the first of a choice.
    """
    prompt_token_ids: list[int] | None = None


class CompletionResponse(BaseModel):
    """The answer, or with `stream` one piece of it."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
