"""`POST /generate`, the API of vLLM's first servers (0.1.0 to 0.6.0).

    {"text": ["prompt and text", ...]}        n texts, each after its prompt

The stream is not SSE, but a sequence of such objects; each has all text so far and is followed by a
zero byte. Later versions of vLLM write a newline instead of the zero byte; to select that here, use
`Accept: application/x-ndjson` or `--generate-delimiter`. A streamed beam search sends the best
texts so far, so earlier text can change.
"""

from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from minivllm.outputs import RequestOutput
from minivllm.sampling_params import RequestOutputKind
from minivllm.server.http.routes import JsonRoute
from minivllm.server.protocol.requests import GenerateRequest
from minivllm.server.routers.answers import TokenCount, finished, new_id, stream
from minivllm.server.service import EngineService, NewRequest

DEFAULT_MAX_TOKENS = 16
NDJSON = "application/x-ndjson"


def routes(service: EngineService) -> list[JsonRoute]:
    async def generate(body: GenerateRequest, request: Request) -> Response:
        """Complete a prompt `n` times, in the format of vLLM's first servers."""
        params = body.sampling_params(
            max_tokens=body.max_tokens or DEFAULT_MAX_TOKENS,
            logprobs=body.logprobs,
            output_kind=RequestOutputKind.CUMULATIVE
            if body.stream
            else RequestOutputKind.FINAL_ONLY,
        )
        grammar = body.requested_grammar()
        await service.prepare_grammar(grammar)
        prompt = await service.to_prompt(body.prompt, None)
        requests = [NewRequest(new_id("gen"), prompt, params, grammar=grammar)]

        def text(output: RequestOutput) -> dict[str, Any]:
            TokenCount(request).add(output)
            return {"text": [output.prompt + completion.text for completion in output.outputs]}

        state = request.state
        generation = await service.submit(requests, state.deadline, state.log)
        if body.stream:
            accepted = request.headers.get("accept", "")
            lines = service.options.generate_delimiter == "newline" or NDJSON in accepted
            media_type, delimiter = (NDJSON, b"\n") if lines else ("text/plain", b"\0")
            encode = lambda chunk: msgspec.json.encode(chunk) + delimiter  # noqa: E731
            chunks = (text(output) async for output in generation)
            return await stream(generation, chunks, encode, media_type)
        (output,) = await finished(generation)
        return JSONResponse(text(output))

    return [JsonRoute("/generate", generate, GenerateRequest)]
