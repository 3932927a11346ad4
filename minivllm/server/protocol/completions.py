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
    """Return the prompt before the text; with `logprobs`, return the prompt's too."""
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    max_tokens: int | None = Field(None, ge=0, le=MAX_TOKENS)
    """0 is allowed with `echo`, and returns only the prompt with its log-probabilities."""
    add_special_tokens: bool | None = None
    """Add the model's special tokens to a text prompt; default: yes."""
    suffix: neutral("") = None


class CompletionLogprobs(BaseModel):
    """Four parallel lists, one item per token. The first token of an echoed prompt has nulls,
    because no token predicts it.
    """

    tokens: list[str]
    token_logprobs: list[float | None]
    top_logprobs: list[dict[str, float] | None]
    text_offset: list[int]


class CompletionChoice(BaseModel):
    """One generated text."""

    index: int
    text: str
    logprobs: CompletionLogprobs | None = None
    finish_reason: Literal["stop", "length"] | None
    stop_reason: int | str | None = None
    """The stop string or stop token id that ended the text, as in vLLM."""
    prompt_logprobs: PromptLogprobs | None = None
    token_ids: list[int] | None = None
    """With `return_token_ids`: the tokens of the text, or in a stream the tokens of this piece.
    `prompt_token_ids` is then set too; in a stream, only in the first piece of each choice.
    """
    prompt_token_ids: list[int] | None = None


class CompletionResponse(BaseModel):
    """The answer, or with `stream` a piece of the answer."""

    id: str
    object: Literal["text_completion"] = "text_completion"
    created: int
    model: str
    choices: list[CompletionChoice]
    usage: Usage | None = None
