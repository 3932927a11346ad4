"""`/v1/chat/completions` as OpenAI defined it, with vLLM's extras.

The chat template always comes from the model, because a template is a program. A `chat_template` in
a request is refused, like every parameter that has no field here.
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from minivllm.errors import InvalidRequestError
from minivllm.sampling_params import NumLogprobs
from minivllm.server.protocol.requests import Empty, MaxTokens, ModelName, RequestFields
from minivllm.server.protocol.structured_outputs import RequestedGrammar, Strict
from minivllm.server.protocol.tools import (
    CallId,
    FunctionTool,
    NamedToolChoice,
    SentToolCall,
    ToolChoice,
    calls_as_text,
    forced_grammar,
)


class TextPart(Strict):
    """A text part of a message. Other kinds of parts are refused: the model reads only text."""

    type: Literal["text"]
    text: str


class ChatMessage(Strict):
    """A message of the conversation."""

    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: Annotated[str, Meta(max_length=256)] | None = None
    reasoning_content: str | None = None
    tool_calls: list[SentToolCall] | None = None
    tool_call_id: CallId | None = None
    """In a message with the role `tool`: which call it answers."""
    # When OpenAI's client sends an earlier answer back, it includes all fields of an answer.
    refusal: None = None
    annotations: Empty | None = None
    audio: None = None
    function_call: None = None

    def plain(self, template_knows_tools: bool) -> dict[str, Any]:
        """Convert to the dictionary that a chat template takes.

        A template that does not know tools would leave calls out, so they become text.
        """
        text = self.content or ""
        if isinstance(text, list):
            text = "".join(part.text for part in text)
        message: dict[str, Any] = {"role": self.role, "content": text}
        for name in ("name", "reasoning_content", "tool_call_id"):
            if (value := getattr(self, name)) is not None:
                message[name] = value
        if self.tool_calls and template_knows_tools:
            message["tool_calls"] = [call.plain() for call in self.tool_calls]
        elif self.tool_calls:
            message["content"] += calls_as_text(self.tool_calls)
        return message


Messages = Annotated[list[ChatMessage], Meta(min_length=1)]


def plain_messages(messages: list[ChatMessage], template_knows_tools: bool) -> list[dict[str, Any]]:
    """Convert a conversation for a chat template, or refuse a result without its call."""
    known: set[str] = set()
    for index, message in enumerate(messages):
        known.update(call.id for call in message.tool_calls or ())
        if message.role == "tool" and message.tool_call_id not in known:
            raise InvalidRequestError(
                f"messages[{index}].tool_call_id is {message.tool_call_id!r:.80}, but no earlier"
                " message has a call with that id: send the assistant's message with its tool_calls"
                " first."
            )
    return [message.plain(template_knows_tools) for message in messages]


def num_characters(messages: list[dict[str, Any]]) -> int:
    """Return the approximate length of a prompt of messages and tools, in characters."""
    return sum(len(str(value)) for message in messages for value in message.values())


class ChatCompletionRequest(RequestFields, kw_only=True):
    """Generate the assistant's next message, `n` times."""

    messages: Messages
    max_tokens: MaxTokens | None = None
    max_completion_tokens: MaxTokens | None = None
    """OpenAI's newer name for `max_tokens`."""
    logprobs: bool | None = None
    top_logprobs: NumLogprobs | None = None
    tools: Annotated[list[FunctionTool], Meta(max_length=128)] | None = None
    tool_choice: ToolChoice | None = None
    """Without it, "auto" if there are tools."""
    parallel_tool_calls: bool | None = None
    """False: at most one call in an answer."""
    functions: Empty | None = None
    function_call: Literal["none"] | None = None
    add_special_tokens: bool | None = None
    """The chat template already writes the special tokens, so only false is possible."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.add_special_tokens:
            raise ValueError("add_special_tokens cannot be true for a chat: leave it out.")

    @property
    def usable_tools(self) -> list[FunctionTool]:
        """The tools that the model may call."""
        return [] if self.tool_choice == "none" else self.tools or []

    @property
    def forced_function(self) -> str | None:
        """The name of the function that must be called; None if there is none or any will do."""
        choice = self.tool_choice
        return choice.function.name if isinstance(choice, NamedToolChoice) else None

    def all_requested(self) -> list[RequestedGrammar]:
        forced = forced_grammar(
            self.usable_tools, self.tool_choice, parallel=self.parallel_tool_calls is not False
        )
        return [*super().all_requested(), *([] if forced is None else [forced])]


class TokenizeRequest(Strict):
    """A text or a conversation to tokenize; exactly one of the two must be set."""

    model: ModelName | None = None
    prompt: str | None = None
    messages: Messages | None = None
    add_special_tokens: bool | None = None
    """Add the model's special tokens to a text; default: yes. (A chat template writes its own.)"""
    return_token_strs: bool | None = None
