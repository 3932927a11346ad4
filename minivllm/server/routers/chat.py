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
from minivllm.server.protocol.chat import (
    AssistantMessage,
    ChatChoice,
    ChatCompletionChunk,
    ChatCompletionRequest,
    ChatCompletionResponse,
    ChatLogprobs,
    ChunkChoice,
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
    service = serving.service
    messages = [message.plain() for message in body.messages]
    token_ids = await service.in_worker(
        num_characters(messages),
        service.tokenizer.apply_chat_template,
        messages,
        renders_template=True,
    )
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
    await serving.prepare_grammar(body)
    prompt = await serving.to_prompt(token_ids, body.cache_salt)
    return NewRequest(new_id("chatcmpl"), prompt, params, body.priority or 0)


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

    def whole(self, outputs: list[RequestOutput]) -> ChatCompletionResponse:
        judged = outputs[0].prompt_logprobs
        return ChatCompletionResponse(
            id=self._id,
            created=self._created,
            model=self._serving.model_name,
            choices=[
                ChatChoice(
                    index=completion.index,
                    message=AssistantMessage(content=completion.text),
                    logprobs=self._logprobs(completion),
                    finish_reason=completion.finish_reason,
                    stop_reason=completion.stop_reason,
                    token_ids=completion.token_ids if self._body.return_token_ids else None,
                )
                for output in outputs
                for completion in output.outputs
            ],
            usage=TokenCount.of(outputs).to_usage(),
            prompt_logprobs=None if judged is None else prompt_logprobs(judged),
            prompt_token_ids=self._prompt_token_ids,
        )

    async def events(self, generation: Generation, request: Request) -> AsyncGenerator[bytes, None]:
        streamed = StreamCount(self._body.stream_options)

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
                    logprobs = self._logprobs(completion)
                    token_ids = completion.token_ids if self._body.return_token_ids else None
                    # If a token's text is held back, there may be nothing to send yet.
                    if completion.text or completion.finish_reason or logprobs or token_ids:
                        delta = {"content": completion.text} if completion.text else {}
                        yield chunk(
                            ChunkChoice(
                                index=completion.index,
                                delta=delta,
                                logprobs=logprobs,
                                finish_reason=completion.finish_reason,
                                stop_reason=completion.stop_reason,
                                token_ids=token_ids,
                            )
                        )
            if streamed.include_usage:
                yield chunk()
        finally:
            streamed.count.note_in(request)

    def _logprobs(self, completion: CompletionOutput) -> ChatLogprobs | None:
        if completion.logprobs is None:
            return None
        return chat_logprobs(
            completion.token_ids, completion.logprobs, self._body.top_logprobs or 0
        )
