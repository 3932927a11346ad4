"""`POST /generate`, the API of vLLM's first servers (0.1.0 to 0.6.0).

    {"text": ["prompt and text", ...]}        n texts, each after its prompt

The stream is not SSE, but a sequence of such objects; each has all text so far and is followed by a
zero byte. Later versions of vLLM write a newline instead of the zero byte; to select that here, use
`Accept: application/x-ndjson` or `--generate-delimiter`. A streamed beam search sends the best
texts so far, so earlier text can change.
"""

import json
import logging
from collections.abc import AsyncGenerator
from typing import Any

from fastapi import APIRouter, Request, Response

from minivllm.outputs import RequestOutput
from minivllm.sampling_params import RequestOutputKind
from minivllm.server.errors import ERROR_RESPONSES, to_api_error
from minivllm.server.generation import Generation
from minivllm.server.http.json_body import AnyTypeRoute
from minivllm.server.protocol.other import GenerateRequest, GenerateResponse
from minivllm.server.service import NewRequest
from minivllm.server.serving import Serving, new_id
from minivllm.server.usage import TokenCount

DEFAULT_MAX_TOKENS = 16
NDJSON = "application/x-ndjson"
STREAMS: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}, NDJSON: {}}}}

_log = logging.getLogger("minivllm.server")


def router(serving: Serving) -> APIRouter:
    routes = APIRouter(route_class=AnyTypeRoute, responses=ERROR_RESPONSES)

    @routes.post("/generate", response_model=GenerateResponse, responses=STREAMS)
    async def generate(body: GenerateRequest, request: Request) -> Response:
        params = body.sampling_params(
            max_tokens=body.max_tokens or DEFAULT_MAX_TOKENS,
            logprobs=body.logprobs,
            kind=RequestOutputKind.CUMULATIVE if body.stream else RequestOutputKind.FINAL_ONLY,
        )
        await serving.prepare_grammar(body)
        prompt = await serving.to_prompt(body.prompt, None)
        grammar = body.requested_grammar()
        requests = [NewRequest(new_id("gen"), prompt, params, grammar=grammar)]
        if body.stream:
            lines = (
                serving.options.generate_delimiter == "newline"
                or NDJSON in request.headers.get("accept", "")
            )
            media_type, delimiter = (
                (NDJSON, b"\n") if lines else ("text/plain; charset=utf-8", b"\0")
            )
            return await serving.stream(
                request,
                requests,
                lambda generation: _pieces(generation, delimiter, request),
                media_type,
            )
        outputs = await serving.answer(request, requests)
        return Response(_text(outputs[0]), media_type="application/json")

    return routes


def _text(output: RequestOutput) -> bytes:
    return json.dumps(
        {"text": [output.prompt + completion.text for completion in output.outputs]}
    ).encode()


async def _pieces(
    generation: Generation, delimiter: bytes, request: Request
) -> AsyncGenerator[bytes, None]:
    try:
        async for output in generation:
            TokenCount.of([output]).note_in(request)
            yield _text(output) + delimiter
    except Exception as error:
        _log.warning("a stream ended with an error", exc_info=error)
        yield json.dumps(to_api_error(error).body()).encode() + delimiter
