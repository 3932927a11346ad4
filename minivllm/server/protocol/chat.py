"""`/v1/chat/completions` as OpenAI defined it, with vLLM's extras.

The chat template always comes from the model, because a template is a program. A `chat_template` in
a request is refused, like every parameter that has no field here.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field
from typing_extensions import TypedDict  # pydantic needs this one before Python 3.12

from minivllm.errors import InvalidRequestError
from minivllm.server.protocol.base import (
    MAX_LOGPROBS,
    MAX_TOKENS,
    PromptLogprobs,
    RequestFields,
    Strict,
    Usage,
)
from minivllm.server.protocol.neutral import Null, NullOrEmpty, neutral
from minivllm.server.protocol.structured_outputs import RequestedGrammar
from minivllm.server.protocol.tools import (
    MAX_CALLS_SENT,
    MAX_TOOLS,
    CallId,
    FunctionTool,
    NamedToolChoice,
    SentToolCall,
    ToolCall,
    ToolChoice,
    calls_as_text,
    check_tools,
    forced_grammar,
    schemas_of_arguments,
)

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
    reasoning_content: str | None = None
    tool_calls: Annotated[list[SentToolCall], Field(max_length=MAX_CALLS_SENT)] | None = None
    tool_call_id: CallId | None = None
    """In a message with the role `tool`: which call it answers."""

    def plain(self, template_knows_tools: bool) -> dict[str, Any]:
        """Convert to the dictionary that a chat template takes.

        A template that does not know tools would leave calls out, so they become text.
        """
        text = (
            self.content
            if isinstance(self.content, str)
            else "".join(part.text for part in self.content or ())
        )
        message: dict[str, Any] = {"role": self.role, "content": text}
        for name in ("name", "reasoning_content", "tool_call_id"):
            if (value := getattr(self, name)) is not None:
                message[name] = value
        if self.tool_calls and template_knows_tools:
            message["tool_calls"] = [call.plain() for call in self.tool_calls]
        elif self.tool_calls:
            message["content"] += calls_as_text(self.tool_calls)
        return message


def plain_messages(messages: list[ChatMessage], template_knows_tools: bool) -> list[dict[str, Any]]:
    """Convert a conversation for a chat template.

    Raises `InvalidRequestError` if its calls and their results do not fit together.
    """
    known: set[str] = set()
    for index, message in enumerate(messages):
        if message.tool_calls and message.role != "assistant":
            raise InvalidRequestError(
                f"messages[{index}].tool_calls belongs to the role assistant: leave it out."
            )
        known.update(call.id for call in message.tool_calls or ())
        place = f"messages[{index}].tool_call_id"
        if message.role == "tool" and message.tool_call_id is None:
            raise InvalidRequestError(
                f"{place} is missing: send the id of the call that the message answers."
            )
        if message.role != "tool" and message.tool_call_id is not None:
            raise InvalidRequestError(f"{place} belongs to the role tool: leave it out.")
        if message.role == "tool" and message.tool_call_id not in known:
            raise InvalidRequestError(
                f"{place} is {message.tool_call_id!r:.80}, but no message before has a call with"
                " that id: send the assistant's message with its tool_calls first."
            )
    return [message.plain(template_knows_tools) for message in messages]


class ChatCompletionRequest(RequestFields):
    """Generate the assistant's next message, `n` times."""

    messages: list[ChatMessage] = Field(min_length=1, max_length=MAX_MESSAGES)
    max_completion_tokens: int | None = Field(None, ge=1, le=MAX_TOKENS)
    """OpenAI's newer name for `max_tokens`."""
    logprobs: bool | None = None
    top_logprobs: int | None = Field(None, ge=0, le=MAX_LOGPROBS)
    tools: Annotated[list[FunctionTool], Field(max_length=MAX_TOOLS)] | None = None
    tool_choice: ToolChoice | None = None
    """Without it, "auto" if there are tools."""
    parallel_tool_calls: bool | None = None
    """False: at most one call in an answer."""
    functions: NullOrEmpty = None
    function_call: neutral("none") = None
    add_special_tokens: neutral(False) = None
    """The chat template already writes the special tokens."""

    @property
    def usable_tools(self) -> list[FunctionTool]:
        """The tools that the model may call."""
        return [] if self.tool_choice == "none" else self.tools or []

    @property
    def forced_function(self) -> str | None:
        """The name of the function that must be called; None if there is none or any will do."""
        choice = self.tool_choice
        return choice.function.name if isinstance(choice, NamedToolChoice) else None

    def check_tools(self) -> None:
        """Raise `InvalidRequestError` if tools and `tool_choice` do not fit together."""
        check_tools(self.tools or [], self.tool_choice)

    def all_requested(self) -> list[RequestedGrammar]:
        forced = forced_grammar(
            self.usable_tools, self.tool_choice, parallel=self.parallel_tool_calls is not False
        )
        return [*super().all_requested(), *([] if forced is None else [forced])]

    def tool_grammars(self) -> list[RequestedGrammar]:
        """Return a grammar for each function's arguments, if the model must call one of them."""
        return schemas_of_arguments(self.usable_tools) if self.tool_choice == "required" else []


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
    content: str | None
    reasoning_content: str | None = None
    tool_calls: list[ToolCall] | None = None


class ChatChoice(BaseModel):
    """One of the `n` answers."""

    index: int
    message: AssistantMessage
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls"]
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


class FunctionDelta(TypedDict, total=False):
    """The name of a called function, or some characters of its arguments."""

    name: str
    arguments: str


class ToolCallDelta(TypedDict, total=False):
    """The begin of a tool call, or more of its arguments."""

    index: int
    id: str
    type: Literal["function"]
    function: FunctionDelta


class ChatDelta(TypedDict, total=False):
    """New data of a message."""

    role: Literal["assistant"]
    content: str
    reasoning_content: str
    tool_calls: list[ToolCallDelta]


class ChunkChoice(BaseModel):
    """New data of one answer: its role, some text, or its end."""

    index: int
    delta: ChatDelta
    logprobs: ChatLogprobs | None = None
    finish_reason: Literal["stop", "length", "tool_calls"] | None = None
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
