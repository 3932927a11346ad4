"""`/v1/chat/completions` as OpenAI defined it, with vLLM's extras.

The chat template always comes from the model, because a template is a program. A `chat_template` in
a request is refused, like every parameter that has no field here.
"""

from typing import Annotated, Literal

from pydantic import BaseModel, Field

from minivllm.server.protocol.base import (
    MAX_LOGPROBS,
    MAX_TOKENS,
    PromptLogprobs,
    RequestFields,
    Strict,
    Usage,
)
from minivllm.server.protocol.neutral import Null, NullOrEmpty, neutral

MAX_MESSAGES = 1024


class TextPart(Strict):
    """A text part of a message. Other kinds of parts are refused: the model reads only text."""

    type: Literal["text"]
    text: str


class ChatMessage(Strict):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | Annotated[list[TextPart], Field(max_length=MAX_MESSAGES)] | None = None
    name: str | None = Field(None, max_length=256)
    # When OpenAI's client sends an earlier answer back, it includes all fields of an answer.
    refusal: Null = None
    annotations: NullOrEmpty = None
    audio: Null = None
    function_call: Null = None
    tool_calls: NullOrEmpty = None

    def plain(self) -> dict[str, str]:
        """Convert to the dictionary that a chat template takes."""
        text = (
            self.content
            if isinstance(self.content, str)
            else "".join(part.text for part in self.content or ())
        )
        return {"role": self.role, "content": text} | (
            {"name": self.name} if self.name is not None else {}
        )


class ChatCompletionRequest(RequestFields):
    """Generate the assistant's next message, `n` times."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_completion_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS)
    """OpenAI's newer name for `max_tokens`."""
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    tools: NullOrEmpty = None
    tool_choice: neutral("none") = None
    functions: NullOrEmpty = None
    function_call: neutral("none") = None
    add_special_tokens: neutral(False) = None
    """The chat template already writes the special tokens."""


class TopLogprob(BaseModel):
    """An alternative token at a position."""

    token: str
    logprob: float
    bytes: list[int] | None
    """None if the token is only part of a character, because its text does not give its bytes."""


class TokenLogprob(TopLogprob):
    """The token that was generated at a position."""

    top_logprobs: list[TopLogprob]


class ChatLogprobs(BaseModel):
    """Log-probabilities, one item per token of the answer."""

    content: list[TokenLogprob]


class AssistantMessage(BaseModel):
    """The assistant's message in an answer."""

    role: Literal["assistant"] = "assistant"
    content: str


class ChatChoice(BaseModel):
    """One of the `n` answers."""

    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length"]
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None
    """Set with `return_token_ids`."""


class ChatCompletionResponse(BaseModel):
    """The response body, with all `n` answers."""

    id: str
    object: Literal["chat.completion"] = "chat.completion"
    created: int
    model: str
    choices: list[ChatChoice]
    usage: Usage
    prompt_logprobs: PromptLogprobs | None = None
    prompt_token_ids: list[int] | None = None
    """Set with `return_token_ids`."""


class ChunkChoice(BaseModel):
    """New data of one answer: its role, some text, or its end."""

    index: int
    delta: dict[str, str]
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length"] | None = None
    stop_reason: int | str | None = None
    token_ids: list[int] | None = None


class ChatCompletionChunk(BaseModel):
    """One event of a streamed answer."""

    id: str
    object: Literal["chat.completion.chunk"] = "chat.completion.chunk"
    created: int
    model: str
    choices: list[ChunkChoice]
    usage: Usage | None = None
    prompt_token_ids: list[int] | None = None
    """Set with `return_token_ids`, in the first chunk."""
