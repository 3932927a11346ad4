"""Streamed answers: server-sent events in the form that OpenAI's clients read.

An error inside a stream is an event, because the status has been sent already; `[DONE]` still
follows. Without two newlines after an event, clients do not see it.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any

import msgspec
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from minivllm.server.errors import to_api_error

MEDIA_TYPE = "text/event-stream; charset=utf-8"
DONE = b"data: [DONE]\n\n"

_log = logging.getLogger("minivllm.server")


class Stream(StreamingResponse):
    """Sends `pieces` until there are no more or the client disconnects."""

    def __init__(
        self, pieces: AsyncGenerator[bytes, None], media_type: str, on_end: Callable[[], None]
    ) -> None:
        """on_end: called once, even if sending never starts and so `pieces` never runs"""
        # Ask a proxy between us and the client not to buffer the pieces.
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        super().__init__(pieces, headers=headers, media_type=media_type)
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._on_end()
            await self.body_iterator.aclose()


def encode_event(chunk: dict[str, Any]) -> bytes:
    return b"data: " + msgspec.json.encode(chunk) + b"\n\n"


async def until_done(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield `events`, then an error if one ended them, then the end mark."""
    try:
        # Otherwise `events` runs until it is garbage-collected, and its token counts are too late
        # for the log.
        async with aclosing(events):
            async for event in events:
                yield event
    except Exception as error:
        yield encode_event(failure(error))
    yield DONE


def failure(error: Exception) -> dict[str, Any]:
    """Log an error that ended a stream, and return what the client gets."""
    _log.warning("a stream ended with an error", exc_info=error)
    return to_api_error(error).body()
