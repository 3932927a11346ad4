"""`respond`: an answer of one of OpenAI's endpoints, streamed or in one piece, as the client asked for it.

Knows neither endpoint: each makes its own objects of the engine's outputs (`Answer`). The easy thing to get wrong is the
status of a stream: what fails before the first token still has one, so nothing is sent before that.
"""

from collections.abc import AsyncGenerator
from typing import Protocol

from fastapi import Request, Response
from pydantic import BaseModel

from minivllm.outputs import RequestOutput
from minivllm.server.generation import Generation
from minivllm.server.http import sse
from minivllm.server.service import NewRequest
from minivllm.server.serving import Serving

WRITTEN_AT_ONCE = 2000
"""Tokens and log-probabilities that are written in a few milliseconds."""


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

    def written() -> str:
        return answer.whole(outputs).model_dump_json()

    # With log-probabilities an answer may take a second to write: not in the event loop, where everybody would wait.
    num_values = _num_values(outputs)
    text = written() if num_values < WRITTEN_AT_ONCE else await serving.service.in_worker(num_values, written)
    return Response(text, media_type="application/json")


def _num_values(outputs: list[RequestOutput]) -> int:
    """About how many tokens and log-probabilities an answer tells; with `echo`, the prompt's again in each text."""
    total = 0
    for output in outputs:
        judged = sum(map(len, filter(None, output.prompt_logprobs or ())))
        total += judged * (1 + len(output.outputs)) + sum(len(one.token_ids) for one in output.outputs)
        total += sum(len(values) for one in output.outputs for values in one.logprobs or ())
    return total
