"""The small endpoints: models, tokenizer, version, and the early vLLM's `/generate`."""

from typing import Annotated, Literal

from pydantic import BaseModel, Field, StringConstraints

from minivllm.server.protocol.base import MAX_LOGPROBS, SamplingFields, Strict
from minivllm.server.protocol.chat import MAX_MESSAGES, ChatMessage
from minivllm.server.protocol.prompts import TokenIds

ModelName = Annotated[str, StringConstraints(max_length=256)]


class ModelCard(BaseModel):
    """A model that is served."""

    id: str
    object: Literal["model"] = "model"
    created: int
    owned_by: Literal["minivllm"] = "minivllm"
    max_model_len: int


class ModelList(BaseModel):
    """All of them: one."""

    object: Literal["list"] = "list"
    data: list[ModelCard]


class VersionResponse(BaseModel):
    """Of minivllm."""

    version: str


class TokenizeRequest(Strict):
    """A text, or a conversation, as the model will see it: one of the two."""

    model: ModelName | None = None
    prompt: str | None = None
    messages: list[ChatMessage] | None = Field(None, min_length=1, max_length=MAX_MESSAGES)
    add_special_tokens: bool | None = None
    """Put around a text what the model wants around one; by default yes. (A chat template writes it
    itself.)
    """
    return_token_strs: bool | None = None


class TokenizeResponse(BaseModel):
    """The token ids, and with `return_token_strs` the text of each."""

    count: int
    max_model_len: int
    tokens: list[int]
    token_strs: list[str] | None = None


class DetokenizeRequest(Strict):
    """Token ids."""

    model: ModelName | None = None
    tokens: TokenIds


class DetokenizeResponse(BaseModel):
    """Their text."""

    prompt: str


class TokenizerInfoResponse(BaseModel):
    """What a client that counts tokens wants to know."""

    bos_token: str | None
    eos_token: str | None
    pad_token: str | None
    vocab_size: int
    max_model_len: int


class GenerateRequest(SamplingFields):
    """vLLM's first server: a prompt, `stream`, and everything else a sampling parameter."""

    prompt: Annotated[str, StringConstraints(min_length=1)]
    stream: bool | None = None
    logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    """Taken as it was then; the answer has no place for them."""


class GenerateResponse(BaseModel):
    """The texts, each with the prompt in front."""

    text: list[str]
