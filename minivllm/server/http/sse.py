"""Server-sent events as OpenAI's clients read them, and the tokens counted on their way.

The easy thing to get wrong is the error in the middle: the status was sent long ago, so it comes as an event of its
own, and `[DONE]` still ends the stream. And each event ends with two newlines: with one, clients see no event at all.
"""

import json
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import Any

from fastapi import Request
from pydantic import BaseModel

from minivllm.outputs import RequestOutput
from minivllm.server.errors import to_api_error
from minivllm.server.protocol.base import StreamOptions, Usage
from minivllm.server.serving import note_tokens, usage

MEDIA_TYPE = "text/event-stream; charset=utf-8"
RESPONSES: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""For the OpenAPI of a route that may answer with a stream."""
DONE = b"data: [DONE]\n\n"

_log = logging.getLogger("minivllm.server")


def event(chunk: BaseModel, with_usage: bool) -> bytes:
    """`with_usage`: a client that asked for usage gets the field in each chunk, and null in most."""
    data = chunk.model_dump_json(exclude=None if with_usage else {"usage"})
    return b"data: " + data.encode() + b"\n\n"


async def until_done(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """`events`, then an error if one ended them, then the end mark."""
    try:
        # Closed by us, or it would end only when the garbage is collected, and count its tokens too late for the log.
        async with aclosing(events):
            async for one in events:
                yield one
    except Exception as error:
        _log.warning("a stream broke off", exc_info=error)
        yield b"data: " + json.dumps(to_api_error(error).body()).encode() + b"\n\n"
    yield DONE


class TokenCount:
    """Counts what has been streamed so far."""

    def __init__(self, options: StreamOptions | None) -> None:
        self.include_usage = bool(options and options.include_usage)
        self._continuous = self.include_usage and bool(options and options.continuous_usage_stats)
        self._prompts: dict[str, tuple[int, int]] = {}
        self._num_output = 0

    def add(self, output: RequestOutput) -> None:
        self._prompts[output.request_id] = (len(output.prompt_token_ids), output.num_cached_tokens)
        self._num_output += sum(len(one.token_ids) for one in output.outputs)

    def note_in(self, request: Request) -> None:
        note_tokens(request, *self._numbers())

    @property
    def so_far(self) -> Usage | None:
        """For a chunk on the way: None, unless the client wants it in each."""
        return self.total if self._continuous else None

    @property
    def total(self) -> Usage:
        return usage(*self._numbers())

    def _numbers(self) -> tuple[int, int, int]:
        prompts: Iterable[tuple[int, int]] = self._prompts.values()
        return sum(tokens for tokens, _ in prompts), self._num_output, sum(cached for _, cached in prompts)
