"""`POST /v1/chat/completions`.

The model's chat template makes the prompt, outside the event loop, so that a long conversation does
not delay other streams. If `max_tokens` is not set, it is the largest number that context and
memory allow; the engine would refuse more.
"""

from functools import partial
from secrets import token_hex
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from minivllm.errors import InvalidRequestError
from minivllm.outputs import CompletionOutput, RequestOutput
from minivllm.sampling_params import RequestOutputKind
from minivllm.server.http.routes import JsonRoute
from minivllm.server.parsers.message import MessageParser
from minivllm.server.parsers.tool_calls import TOOL_PARSERS, forced_calls, named_call, plain_text
from minivllm.server.protocol.chat import ChatCompletionRequest, num_characters, plain_messages
from minivllm.server.protocol.logprobs import chat_logprobs, prompt_logprobs
from minivllm.server.protocol.tools import check_tools, schemas_of_arguments
from minivllm.server.routers.answers import Answer, new_id
from minivllm.server.service import EngineService, NewRequest


def routes(service: EngineService) -> list[JsonRoute]:
    async def create_chat_completion(body: ChatCompletionRequest, request: Request) -> Response:
        """Generate the assistant's next message, `n` times."""
        service.check_model(body.model)
        new = await _request(service, body)
        return await _ChatAnswer(service, body, request, new).respond([new])

    return [JsonRoute("/v1/chat/completions", create_chat_completion, ChatCompletionRequest)]


async def _request(service: EngineService, body: ChatCompletionRequest) -> NewRequest:
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequestError(
            "top_logprobs needs logprobs: set logprobs to true, or leave top_logprobs out."
        )
    asked = body.max_completion_tokens or body.max_tokens
    if asked != (body.max_tokens or asked):
        raise InvalidRequestError("max_tokens and max_completion_tokens differ: set only one.")
    check_tools(body.tools or [], body.tool_choice)
    grammar = body.requested_grammar()
    if body.usable_tools and body.tool_choice in (None, "auto"):
        _check_auto(service)
        if grammar is not None:
            raise InvalidRequestError(
                f"{grammar.field} sets the form of the whole output, which then cannot call a tool:"
                ' leave it out, or set tool_choice to "none".'
            )
    knows_tools = service.tokenizer.template_knows_tools
    messages = plain_messages(body.messages, knows_tools)
    tools = [tool.plain() for tool in body.usable_tools] if knows_tools else []
    size = num_characters([*messages, *tools])
    token_ids = await service.in_worker(
        size, service.tokenizer.apply_chat_template, messages, tools
    )
    num_sequences = body.best_of or body.n or 1
    params = body.sampling_params(
        max_tokens=asked or service.most_output_tokens(len(token_ids), num_sequences),
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        prompt_logprobs=body.prompt_logprobs,
        output_kind=RequestOutputKind.DELTA if body.stream else RequestOutputKind.FINAL_ONLY,
    )
    if body.tool_choice == "required":  # so that an error names the function
        for schema in schemas_of_arguments(body.usable_tools):
            await service.prepare_grammar(schema)
    await service.prepare_grammar(grammar)
    prompt = await service.to_prompt(token_ids, body.cache_salt)
    prompt["prompt"] = messages[-1].get("content")  # for the dashboard: the model gets the ids
    return NewRequest(new_id("chatcmpl"), prompt, params, body.priority or 0, grammar)


def _check_auto(service: EngineService) -> None:
    """Raise `InvalidRequestError` if the model cannot choose a tool itself."""
    if not service.tokenizer.template_knows_tools:
        raise InvalidRequestError(
            'tool_choice cannot be "auto", because this model\'s chat template does not know'
            ' tools: set it to "required" or to a function.'
        )
    if not service.options.enable_auto_tool_choice:
        raise InvalidRequestError(
            'tool_choice "auto" needs a server with --enable-auto-tool-choice and'
            ' --tool-call-parser: start it so, or set tool_choice to "required" or to a function.'
        )


class _ChatAnswer(Answer):
    object_name = "chat.completion"
    chunk_name = "chat.completion.chunk"
    _body: ChatCompletionRequest

    def __init__(
        self, service: EngineService, body: ChatCompletionRequest, request: Request, new: NewRequest
    ) -> None:
        super().__init__(service, body, request, new.request_id)
        self._prompt_token_ids = new.prompt["prompt_token_ids"] if body.return_token_ids else None
        parallel = body.parallel_tool_calls is not False
        parse, options = plain_text, service.options
        if (name := body.forced_function) is not None:
            parse = partial(named_call, name)
        elif body.tool_choice == "required":
            parse = forced_calls
        elif new.grammar is None and body.usable_tools:
            parse = TOOL_PARSERS[options.tool_call_parser]
        # A grammar applies from the first token, so then there is no reasoning.
        reasoning = options.reasoning_parser if new.grammar is None else None
        self._parsers = [
            MessageParser(parse, reasoning, parallel=parallel) for _ in range(body.n or 1)
        ]
        self._begun: set[int] = set()
        """The streamed choices that have said their role."""

    def whole(self, outputs: list[RequestOutput]) -> dict[str, Any]:
        judged = outputs[0].prompt_logprobs
        return super().whole(outputs) | {
            "prompt_logprobs": None if judged is None else prompt_logprobs(judged),
            "prompt_token_ids": self._prompt_token_ids,
        }

    def choice(self, output: RequestOutput, completion: CompletionOutput) -> dict[str, Any]:
        index, reason, logprobs = completion.index, completion.finish_reason, None
        new = self._parsers[index].take(completion.text, ended=reason is not None)
        num_calls = self._parsers[index].num_calls
        if reason == "stop" and num_calls:  # otherwise the last call may be cut off
            reason = "tool_calls"
        if completion.logprobs is not None:
            num_top = self._body.top_logprobs or 0
            logprobs = chat_logprobs(completion.token_ids, completion.logprobs, num_top)
        calls: list[dict[str, Any]] = [
            {"id": f"call_{token_hex(12)}", "type": "function", "function": call._asdict()}
            for call in new.calls
        ]
        kind, message = "message", {
            "role": "assistant",
            "content": new.content or (None if calls else ""),
            "reasoning_content": new.reasoning or None,
            "tool_calls": calls or None,
        }  # fmt: skip
        if self._body.stream:
            for number, call in enumerate(calls, num_calls - len(calls)):
                call["index"] = number
            if index in self._begun:
                del message["role"]
            self._begun.add(index)
            kind, message = "delta", {name: part for name, part in message.items() if part}
        return {
            "index": index,
            kind: message,
            "logprobs": logprobs,
            "finish_reason": reason,
            "stop_reason": completion.stop_reason,
            "token_ids": completion.token_ids if self._body.return_token_ids else None,
        }
