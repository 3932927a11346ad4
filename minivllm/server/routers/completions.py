"""`POST /v1/completions`.

With several prompts, choice i of prompt p has the index p * n + i, streamed or not.
"""

import time
from collections.abc import AsyncGenerator, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from fastapi import APIRouter, Request, Response

from minivllm.errors import InvalidRequestError
from minivllm.outputs import CompletionOutput, RequestOutput
from minivllm.sampling_params import RequestOutputKind
from minivllm.server.errors import ERROR_RESPONSES
from minivllm.server.generation import Generation
from minivllm.server.http import sse
from minivllm.server.http.json_body import JsonRoute
from minivllm.server.protocol.completions import (
    CompletionChoice,
    CompletionLogprobs,
    CompletionRequest,
    CompletionResponse,
)
from minivllm.server.protocol.logprobs import Position, completion_logprobs, prompt_logprobs
from minivllm.server.service import NewRequest
from minivllm.server.serving import Serving, check_stream, choose_answer_id, new_id
from minivllm.server.usage import StreamCount, TokenCount

if TYPE_CHECKING:
    from minivllm.runtime.text.tokenizer import Tokenizer

DEFAULT_MAX_TOKENS = 16


def router(serving: Serving) -> APIRouter:
    routes = APIRouter(route_class=JsonRoute, responses=ERROR_RESPONSES)

    @routes.post("/v1/completions", response_model=CompletionResponse, responses=sse.RESPONSES)
    async def create_completion(body: CompletionRequest, request: Request) -> Response:
        serving.check_model(body.model)
        name = new_id("cmpl")
        requests = await _requests(serving, body, name)
        answer = _Answer(
            serving,
            body,
            choose_answer_id(name, "cmpl", body),
            [request.request_id for request in requests],
        )
        return await serving.respond(request, requests, answer, stream=bool(body.stream))

    return routes


async def _requests(serving: Serving, body: CompletionRequest, name: str) -> list[NewRequest]:
    if body.max_tokens == 0 and (not body.echo or body.min_tokens):
        raise InvalidRequestError(
            "max_tokens must be 1 or more (0 is allowed only with echo and without min_tokens, to"
            " score a prompt)."
        )
    judged = body.logprobs if body.echo and body.prompt_logprobs is None else body.prompt_logprobs
    params = body.sampling_params(
        # The engine generates at least one token. If the client asked for 0, `_shown` removes it.
        max_tokens=DEFAULT_MAX_TOKENS if body.max_tokens is None else max(body.max_tokens, 1),
        logprobs=body.logprobs,
        prompt_logprobs=judged,
        kind=RequestOutputKind.DELTA if body.stream else RequestOutputKind.FINAL_ONLY,
    )
    check_stream(body)
    await serving.prepare_grammar(body)
    grammar = body.requested_grammar()
    special = body.add_special_tokens is not False
    prompts = [await serving.to_prompt(prompt, body.cache_salt, special) for prompt in body.prompt]
    return [
        NewRequest(f"{name}-{i}", prompt, params, body.priority or 0, grammar)
        for i, prompt in enumerate(prompts)
    ]


class _Answer:
    def __init__(
        self, serving: Serving, body: CompletionRequest, answer_id: str, request_ids: list[str]
    ) -> None:
        self._serving = serving
        self._tokenizer = serving.service.tokenizer
        self._body = body
        self._id = answer_id
        self._created = int(time.time())
        self._first_index = {
            request_id: p * (body.n or 1) for p, request_id in enumerate(request_ids)
        }

    def whole(self, outputs: list[RequestOutput]) -> CompletionResponse:
        outputs = [self._shown(output) for output in outputs]
        choices = [
            self._choice(output, completion, is_first=True, offset=0)
            for output in outputs
            for completion in output.outputs
        ]
        answer = self._piece(choices)
        answer.usage = TokenCount.of(outputs).to_usage()
        return answer

    async def events(self, generation: Generation, request: Request) -> AsyncGenerator[bytes, None]:
        streamed = StreamCount(self._body.stream_options)
        offsets: dict[int, int] = {}
        try:
            async for whole in generation:
                output = self._shown(whole)
                streamed.add(output)
                for completion in output.outputs:
                    index = self._first_index[output.request_id] + completion.index
                    choice = self._choice(
                        output,
                        completion,
                        is_first=index not in offsets,
                        offset=offsets.get(index, 0),
                    )
                    if choice.logprobs is not None and choice.logprobs.tokens:
                        offsets[index] = choice.logprobs.text_offset[-1] + len(
                            choice.logprobs.tokens[-1]
                        )
                    offsets.setdefault(index, 0)
                    # If a token's text is held back, there may be nothing to send yet.
                    if choice.text or choice.finish_reason or choice.logprobs or choice.token_ids:
                        piece = self._piece([choice])
                        piece.usage = streamed.usage_so_far
                        yield sse.encode_event(piece, streamed.include_usage)
            if streamed.include_usage:
                last = self._piece([])
                last.usage = streamed.count.to_usage()
                yield sse.encode_event(last, True)
        finally:
            streamed.count.note_in(request)

    def _shown(self, output: RequestOutput) -> RequestOutput:
        """Remove the generated tokens if the client asked for 0."""
        if self._body.max_tokens != 0:
            return output
        nothing = {"text": "", "token_ids": [], "finish_reason": "length", "stop_reason": None}
        outputs = [
            replace(completion, **nothing, logprobs=None if completion.logprobs is None else [])
            for completion in output.outputs
        ]
        return replace(output, outputs=outputs)

    def _piece(self, choices: list[CompletionChoice]) -> CompletionResponse:
        serving = self._serving
        return CompletionResponse(
            id=self._id, created=self._created, model=serving.model_name, choices=choices
        )

    def _choice(
        self, output: RequestOutput, completion: CompletionOutput, *, is_first: bool, offset: int
    ) -> CompletionChoice:
        """is_first: whether this is the choice's first piece, which an echo must precede"""
        echoes = is_first and bool(self._body.echo)
        text = (
            _prompt_text(output, self._tokenizer) + completion.text if echoes else completion.text
        )
        logprobs: CompletionLogprobs | None = None
        if completion.logprobs is not None:
            positions = list(_of_prompt(output, self._tokenizer)) if echoes else []
            positions += _of_output(completion)
            logprobs = completion_logprobs(positions, offset)
        return CompletionChoice(
            index=self._first_index[output.request_id] + completion.index,
            text=text,
            logprobs=logprobs,
            finish_reason=completion.finish_reason,
            stop_reason=completion.stop_reason,
            prompt_logprobs=(
                None
                if self._body.prompt_logprobs is None
                else prompt_logprobs(output.prompt_logprobs)
            ),
            token_ids=completion.token_ids if self._body.return_token_ids else None,
            prompt_token_ids=(
                output.prompt_token_ids if self._body.return_token_ids and is_first else None
            ),
        )


def _prompt_text(output: RequestOutput, tokenizer: "Tokenizer") -> str:
    return output.prompt if output.prompt is not None else tokenizer.decode(output.prompt_token_ids)


def _of_prompt(
    output: RequestOutput, tokenizer: "Tokenizer"
) -> Iterator[tuple[str, int, Position | None]]:
    for token_id, position in zip(output.prompt_token_ids, output.prompt_logprobs, strict=True):
        text = (
            position[token_id].decoded_token
            if position is not None
            else tokenizer.decode([token_id], skip_special_tokens=False)
        )
        yield text, token_id, position


def _of_output(completion: CompletionOutput) -> Iterator[tuple[str, int, Position | None]]:
    for token_id, position in zip(completion.token_ids, completion.logprobs, strict=True):
        yield position[token_id].decoded_token, token_id, position
