"""`POST /v1/chat/completions`.

The model's chat template makes the prompt. It is foreign code, so it runs in a sandbox, and outside
the event loop, so that a long conversation does not delay other streams. If `max_tokens` is not
set, it is the largest number that context and memory allow; the engine would refuse more.
"""

import time
from collections.abc import AsyncGenerator

from fastapi import APIRouter, Request, Response

from minivllm.errors import InvalidRequestError
from minivllm.outputs import CompletionOutput, RequestOutput
from minivllm.sampling_params import RequestOutputKind
from minivllm.server.errors import ERROR_RESPONSES
from minivllm.server.generation import Generation
from minivllm.server.http import sse
from minivllm.server.http.json_body import JsonRoute
from minivllm.server.parsers.choose import forced_parser, free_parser
from minivllm.server.parsers.message import MessageParser
from minivllm.server.protocol.chat import (
    ChatChoice,
    ChatCompletionChunk,
    ChatCompletionRequest,
    ChatCompletionResponse,
    ChatDelta,
    ChatLogprobs,
    ChunkChoice,
    plain_messages,
)
from minivllm.server.protocol.logprobs import chat_logprobs, prompt_logprobs
from minivllm.server.service import NewRequest
from minivllm.server.serving import Serving, check_stream, choose_answer_id, new_id, num_characters
from minivllm.server.usage import StreamCount, TokenCount


def router(serving: Serving) -> APIRouter:
    routes = APIRouter(route_class=JsonRoute, responses=ERROR_RESPONSES)

    @routes.post(
        "/v1/chat/completions", response_model=ChatCompletionResponse, responses=sse.RESPONSES
    )
    async def create_chat_completion(body: ChatCompletionRequest, request: Request) -> Response:
        serving.check_model(body.model)
        requests = [await _request(serving, body)]
        answer_id = choose_answer_id(requests[0].request_id, "chatcmpl", body)
        answer = _Answer(serving, body, answer_id, requests[0].prompt["prompt_token_ids"])
        return await serving.respond(request, requests, answer, stream=bool(body.stream))

    return routes


async def _request(serving: Serving, body: ChatCompletionRequest) -> NewRequest:
    if body.top_logprobs and not body.logprobs:
        raise InvalidRequestError(
            "top_logprobs needs logprobs: set logprobs to true, or leave top_logprobs out."
        )
    if (
        None not in (body.max_tokens, body.max_completion_tokens)
        and body.max_tokens != body.max_completion_tokens
    ):
        raise InvalidRequestError(
            "max_tokens and max_completion_tokens are two names for the same limit: set only one"
            " of them."
        )
    body.check_tools()
    token_ids = await _prompt(serving, body)
    service = serving.service
    asked = body.max_completion_tokens or body.max_tokens
    params = body.sampling_params(
        # At least min_tokens: if that is too large, the engine's error then names min_tokens.
        max_tokens=asked
        or max(
            service.most_output_tokens(len(token_ids), body.num_sequences), body.min_tokens or 1
        ),
        logprobs=(body.top_logprobs or 0) if body.logprobs else None,
        prompt_logprobs=body.prompt_logprobs,
        kind=RequestOutputKind.DELTA if body.stream else RequestOutputKind.FINAL_ONLY,
    )
    check_stream(body)
    for grammar in body.tool_grammars():
        await serving.prepare_requested(grammar)
    await serving.prepare_grammar(body)
    prompt = await serving.to_prompt(token_ids, body.cache_salt)
    return NewRequest(
        new_id("chatcmpl"), prompt, params, body.priority or 0, body.requested_grammar()
    )


async def _prompt(serving: Serving, body: ChatCompletionRequest) -> list[int]:
    tokenizer = serving.service.tokenizer
    if body.usable_tools and body.tool_choice in (None, "auto"):
        _check_auto(serving, body)
    knows_tools = tokenizer.template_knows_tools
    messages = plain_messages(body.messages, knows_tools)
    tools = [tool.plain() for tool in body.usable_tools] if knows_tools else []
    return await serving.service.in_worker(
        num_characters([*messages, *tools]),
        tokenizer.apply_chat_template,
        messages,
        tools,
        renders_template=True,
    )


def _check_auto(serving: Serving, body: ChatCompletionRequest) -> None:
    """Raise `InvalidRequestError` if the model cannot choose a tool itself."""
    if not serving.service.tokenizer.template_knows_tools:
        raise InvalidRequestError(
            'tool_choice cannot be "auto", because this model\'s chat template does not know'
            ' tools: set it to "required" or to a function.'
        )
    if not serving.options.enable_auto_tool_choice:
        raise InvalidRequestError(
            'tool_choice "auto" needs a server with --enable-auto-tool-choice and'
            ' --tool-call-parser: start it so, or set tool_choice to "required" or to a function.'
        )
    if (grammar := body.requested_grammar()) is not None:
        raise InvalidRequestError(
            f"{grammar.field} sets the form of the whole output, which then cannot call a tool:"
            ' leave it out, or set tool_choice to "none".'
        )


class _Answer:
    def __init__(
        self,
        serving: Serving,
        body: ChatCompletionRequest,
        answer_id: str,
        prompt_token_ids: list[int],
    ) -> None:
        self._serving = serving
        self._prompt_token_ids = prompt_token_ids if body.return_token_ids else None
        self._body = body
        self._id = answer_id
        self._created = int(time.time())

    def _new_parser(self) -> MessageParser:
        body, options = self._body, self._serving.options
        if body.forced_function is not None or body.tool_choice == "required":
            parser = forced_parser(body.forced_function)
        elif body.requested_grammar() is not None:
            parser = free_parser(None, None)
        else:
            tool_name = options.tool_call_parser if body.usable_tools else None
            parser = free_parser(tool_name, options.reasoning_parser)
        return MessageParser(parser, parallel=body.parallel_tool_calls is not False)

    def whole(self, outputs: list[RequestOutput]) -> ChatCompletionResponse:
        judged = outputs[0].prompt_logprobs
        completions = [completion for output in outputs for completion in output.outputs]
        return ChatCompletionResponse(
            id=self._id,
            created=self._created,
            model=self._serving.model_name,
            choices=[self._choice(completion) for completion in completions],
            usage=TokenCount.of(outputs).to_usage(),
            prompt_logprobs=None if judged is None else prompt_logprobs(judged),
            prompt_token_ids=self._prompt_token_ids,
        )

    def _choice(self, completion: CompletionOutput) -> ChatChoice:
        parser = self._new_parser()
        return ChatChoice(
            index=completion.index,
            message=parser.message(completion.text),
            logprobs=self._logprobs(completion),
            finish_reason=parser.finish_reason(completion.finish_reason),
            stop_reason=completion.stop_reason,
            token_ids=completion.token_ids if self._body.return_token_ids else None,
        )

    async def events(self, generation: Generation, request: Request) -> AsyncGenerator[bytes, None]:
        streamed = StreamCount(self._body.stream_options)
        parsers = [self._new_parser() for _ in range(self._body.n or 1)]

        def chunk(*choices: ChunkChoice) -> bytes:
            piece = ChatCompletionChunk(
                id=self._id,
                created=self._created,
                model=self._serving.model_name,
                choices=list(choices),
            )
            piece.usage = streamed.usage_so_far if choices else streamed.count.to_usage()
            if choices and choices[0].index == 0 and "role" in choices[0].delta:
                piece.prompt_token_ids = self._prompt_token_ids
            return sse.encode_event(piece, streamed.include_usage)

        try:
            for index in range(self._body.n or 1):
                yield chunk(ChunkChoice(index=index, delta={"role": "assistant", "content": ""}))
            async for output in generation:
                streamed.add(output)
                for completion in output.outputs:
                    for choice in self._chunk_choices(completion, parsers[completion.index]):
                        yield chunk(choice)
            if streamed.include_usage:
                yield chunk()
        finally:
            streamed.count.note_in(request)

    def _chunk_choices(
        self, completion: CompletionOutput, parser: MessageParser
    ) -> list[ChunkChoice]:
        """Return one choice for each delta; the last has the tokens, and why the answer ended."""
        ended = completion.finish_reason
        deltas = parser.deltas(completion.text, is_last=ended is not None)
        logprobs = self._logprobs(completion)
        token_ids = completion.token_ids if self._body.return_token_ids else None
        # If a token's text is held back, there may be nothing to send yet.
        if not (deltas or ended or logprobs or token_ids):
            return []
        choices = [
            ChunkChoice(index=completion.index, delta=delta) for delta in deltas or [ChatDelta()]
        ]
        last = choices[-1]
        last.logprobs, last.token_ids = logprobs, token_ids
        last.finish_reason = parser.finish_reason(ended)
        last.stop_reason = completion.stop_reason
        return choices

    def _logprobs(self, completion: CompletionOutput) -> ChatLogprobs | None:
        if completion.logprobs is None:
            return None
        return chat_logprobs(
            completion.token_ids, completion.logprobs, self._body.top_logprobs or 0
        )
