"""`POST /v1/completions`.

With several prompts, choice i of prompt p has the index p * n + i, streamed or not.
"""

from dataclasses import replace
from itertools import chain
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from minivllm.errors import InvalidRequestError
from minivllm.outputs import CompletionOutput, RequestOutput
from minivllm.sampling_params import RequestOutputKind
from minivllm.server.http.routes import JsonRoute
from minivllm.server.protocol.logprobs import completion_logprobs, prompt_logprobs
from minivllm.server.protocol.requests import CompletionRequest
from minivllm.server.routers.answers import Answer, new_id
from minivllm.server.service import EngineService, NewRequest

DEFAULT_MAX_TOKENS = 16


def routes(service: EngineService) -> list[JsonRoute]:
    async def create_completion(body: CompletionRequest, request: Request) -> Response:
        """Complete each prompt `n` times."""
        service.check_model(body.model)
        name = new_id("cmpl")
        requests = await _requests(service, body, name)
        return await _CompletionAnswer(service, body, request, name).respond(requests)

    return [JsonRoute("/v1/completions", create_completion, CompletionRequest)]


async def _requests(service: EngineService, body: CompletionRequest, name: str) -> list[NewRequest]:
    if body.max_tokens == 0 and (not body.echo or body.min_tokens):
        raise InvalidRequestError(
            "max_tokens must be 1 or more (0 is allowed only with echo and without min_tokens, to"
            " score a prompt)."
        )
    judged = body.logprobs if body.echo and body.prompt_logprobs is None else body.prompt_logprobs
    params = body.sampling_params(
        # The engine generates at least one token. If the client asked for 0, `shown` removes it.
        max_tokens=DEFAULT_MAX_TOKENS if body.max_tokens is None else max(body.max_tokens, 1),
        logprobs=body.logprobs,
        prompt_logprobs=judged,
        output_kind=RequestOutputKind.DELTA if body.stream else RequestOutputKind.FINAL_ONLY,
    )
    grammar = body.requested_grammar()
    await service.prepare_grammar(grammar)
    special = body.add_special_tokens is not False
    prompts = [await service.to_prompt(given, body.cache_salt, special) for given in body.prompts()]
    return [
        NewRequest(f"{name}-{i}", prompt, params, body.priority or 0, grammar)
        for i, prompt in enumerate(prompts)
    ]


class _CompletionAnswer(Answer):
    object_name = chunk_name = "text_completion"
    _body: CompletionRequest

    def __init__(
        self, service: EngineService, body: CompletionRequest, request: Request, name: str
    ) -> None:
        super().__init__(service, body, request, name)
        self._offsets: dict[int, int] = {}
        """Where in the text of each choice that has begun the next token begins."""

    def shown(self, output: RequestOutput) -> RequestOutput:
        """Remove the generated tokens if the client asked for 0."""
        if self._body.max_tokens != 0:
            return output
        nothing = {"text": "", "token_ids": [], "finish_reason": "length", "stop_reason": None}
        outputs = [replace(out, **nothing, logprobs=out.logprobs and []) for out in output.outputs]
        return replace(output, outputs=outputs)

    def choice(self, output: RequestOutput, completion: CompletionOutput) -> dict[str, Any]:
        body, tokenizer = self._body, self._service.tokenizer
        text, logprobs = completion.text, None
        index = int(output.request_id.rpartition("-")[2]) * (body.n or 1) + completion.index
        is_first = index not in self._offsets
        offset = self._offsets.setdefault(index, 0)
        echoes = is_first and bool(body.echo)
        if echoes:
            prompt = output.prompt
            if prompt is None:
                prompt = tokenizer.decode(output.prompt_token_ids)
            text = prompt + text
        if completion.logprobs is not None:
            positions = zip(completion.token_ids, completion.logprobs, strict=True)
            if echoes:
                prompt_positions = zip(output.prompt_token_ids, output.prompt_logprobs, strict=True)
                positions = chain(prompt_positions, positions)
            logprobs = completion_logprobs(positions, offset, tokenizer.decode)
            self._offsets[index] += sum(map(len, logprobs["tokens"]))
        judged = None if body.prompt_logprobs is None else prompt_logprobs(output.prompt_logprobs)
        gives_ids = bool(body.return_token_ids)
        return {
            "index": index,
            "text": text,
            "logprobs": logprobs,
            "finish_reason": completion.finish_reason,
            "stop_reason": completion.stop_reason,
            "prompt_logprobs": judged,
            "token_ids": completion.token_ids if gives_ids else None,
            "prompt_token_ids": output.prompt_token_ids if gives_ids and is_first else None,
        }
