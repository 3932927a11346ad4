"""What all endpoints that generate share: ids, token counts, streams and whole answers.

A stream sends nothing before its first chunk, so that an earlier failure can still set the HTTP
status. A later one is an event: then `[DONE]` still follows. A client can disconnect while its
request is being submitted. Only a response watches the connection, so until there is one, `stream`
and `finished` end the generation themselves.
"""

import logging
import secrets
import time
from collections.abc import AsyncGenerator, Callable
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from minivllm.outputs import CompletionOutput, RequestOutput
from minivllm.server.errors import to_api_error
from minivllm.server.http.streams import Stream
from minivllm.server.logs import REQUEST_ID
from minivllm.server.protocol.requests import RequestFields, StreamOptions
from minivllm.server.service import EngineService, Generation, NewRequest

SSE = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"
Chunk = dict[str, Any]
_WORTH_SENDING = ("text", "delta", "finish_reason", "logprobs", "token_ids")

_log = logging.getLogger("minivllm.server")


def new_id(prefix: str) -> str:
    """Make an id for an answer and its requests in the engine.

    The id contains the HTTP request's id, for comparing logs and events. Random digits follow:
    clients may use an X-Request-Id twice, and equal ids would draw the same samples.
    """
    return f"{prefix}-{REQUEST_ID.get()}-{secrets.token_hex(4)}"


class TokenCount:
    """Counts an answer's tokens, for its `usage` field and for the log."""

    def __init__(self, request: Request) -> None:
        self._log = request.scope["state"]["log"]
        self._prompts: dict[str, RequestOutput] = {}
        self._num_output = 0

    def add(self, output: RequestOutput) -> None:
        self._prompts[output.request_id] = output
        self._num_output += sum(len(completion.token_ids) for completion in output.outputs)
        self._log |= {
            "prompt_tokens": sum(len(prompt.prompt_token_ids) for prompt in self._prompts.values()),
            "completion_tokens": self._num_output,
            "cached_tokens": sum(prompt.num_cached_tokens for prompt in self._prompts.values()),
        }

    @property
    def usage(self) -> dict[str, Any]:
        prompt, output = self._log.get("prompt_tokens", 0), self._num_output
        return {
            "prompt_tokens": prompt,
            "completion_tokens": output,
            "total_tokens": prompt + output,
            "prompt_tokens_details": {"cached_tokens": self._log.get("cached_tokens", 0)},
        }


class Answer:
    """Turns the engine's outputs into the answer of one of OpenAI's endpoints.

    A subclass makes the choices; see OpenAI's reference for their fields.
    """

    object_name: str
    chunk_name: str

    def __init__(
        self, service: EngineService, body: RequestFields, request: Request, name: str
    ) -> None:
        """name: a `new_id`; the answer shows the client's `request_id` instead, if there is one"""
        prefix = name.partition("-")[0]
        self._head = {
            "id": name if body.request_id is None else f"{prefix}-{body.request_id}",
            "created": int(time.time()),
            "model": service.model_name,
            "object": self.chunk_name if body.stream else self.object_name,
        }
        self._service, self._body, self._state = service, body, request.state
        self._count = TokenCount(request)
        self._options = body.stream_options or StreamOptions()

    def choice(self, output: RequestOutput, completion: CompletionOutput) -> dict[str, Any]:
        """A text as a choice, or what is new in a streamed text."""
        raise NotImplementedError

    def shown(self, output: RequestOutput) -> RequestOutput:
        """The part of an output that the client asked for."""
        return output

    async def respond(self, requests: list[NewRequest]) -> Response:
        generation = await self._service.submit(requests, self._state.deadline, self._state.log)
        if self._body.stream:
            return await stream(generation, self.chunks(generation), encode_event, SSE, DONE)
        outputs = await finished(generation)
        # Writing many log-probabilities takes long, and would block other clients here.
        write = lambda: msgspec.json.encode(self.whole(outputs))  # noqa: E731
        return Response(await self._service.in_worker(0, write), media_type="application/json")

    def whole(self, outputs: list[RequestOutput]) -> dict[str, Any]:
        choices = []
        for output in map(self.shown, outputs):
            self._count.add(output)
            choices += [self.choice(output, completion) for completion in output.outputs]
        return {**self._head, "choices": choices, "usage": self._count.usage}

    async def chunks(self, generation: Generation) -> AsyncGenerator[Chunk, None]:
        async for whole in generation:
            output = self.shown(whole)
            self._count.add(output)
            for completion in output.outputs:
                choice = self.choice(output, completion)
                # If a token's text is held back, there may be nothing to send yet.
                if any(map(choice.get, _WORTH_SENDING)):
                    yield self._chunk([choice])
        if self._options.include_usage:
            yield self._chunk([])

    def _chunk(self, choices: list[dict[str, Any]]) -> Chunk:
        """Return a chunk; without choices, it is the last one, for the usage."""
        chunk = {**self._head, "choices": choices}
        if self._options.include_usage:
            told = not choices or self._options.continuous_usage_stats
            chunk["usage"] = self._count.usage if told else None
        return chunk


def encode_event(chunk: Chunk) -> bytes:
    """Encode a server-sent event. Without two newlines after it, clients do not see it."""
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


async def stream(
    generation: Generation,
    chunks: AsyncGenerator[Chunk, None],
    encode: Callable[[Chunk], bytes],
    media_type: str,
    last: bytes = b"",
) -> Response:
    """Stream `chunks` of the generation, then `last`. Raise if the request fails early."""
    try:
        first = await anext(chunks)
    except BaseException:
        generation.end()
        raise

    async def pieces() -> AsyncGenerator[bytes, None]:
        try:
            yield encode(first)
            async for chunk in chunks:
                yield encode(chunk)
        except Exception as error:
            _log.warning("a stream ended with an error", exc_info=error)
            yield encode(to_api_error(error).body())
        yield last

    return Stream(pieces(), media_type, on_end=generation.end)


async def finished(generation: Generation) -> list[RequestOutput]:
    """Return the last output of each request, in the order of the requests."""
    try:
        last = {output.request_id: output async for output in generation if output.finished}
    finally:
        generation.end()
    return [last[request_id] for request_id in generation.request_ids]
