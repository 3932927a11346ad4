"""`respond`: an answer of one of OpenAI's endpoints, streamed or in one piece, as the client asked for it.

Knows neither endpoint: each makes its own objects of the engine's outputs (`Answer`). The easy thing to get wrong is the
status of a stream: what fails before the first token still has one, so nothing is sent before that.
"""

from collections.abc import AsyncGenerator
from typing import Protocol

from fastapi import Request, Response
from pydantic import BaseModel

from minivllm.outputs import RequestOutput
from minivllm.server import sse
from minivllm.server.generation import Generation
from minivllm.server.service import NewRequest
from minivllm.server.serving import Serving


class Answer(Protocol):
    """One answer in the making."""

    def whole(self, outputs: list[RequestOutput]) -> BaseModel:
        """The body, from the last output of each request."""

    def events(self, generation: Generation, request: Request) -> AsyncGenerator[bytes, None]:
        """Server-sent events, as the outputs come."""


async def respond(
    serving: Serving, request: Request, requests: list[NewRequest], answer: Answer, *, stream: bool
) -> Response:
    """Have the engine serve `requests`, and tell the client."""
    if stream:
        return await serving.stream(
            request, requests, lambda generation: sse.until_done(answer.events(generation, request)), sse.MEDIA_TYPE
        )
    outputs = await serving.answer(request, requests)
    return Response(answer.whole(outputs).model_dump_json(), media_type="application/json")
