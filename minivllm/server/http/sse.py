"""Server-sent events in the form that OpenAI's clients read.

An error inside a stream is an event, because the status has been sent already; `[DONE]` still
follows. Without two newlines after an event, clients do not see it.
"""

import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

from pydantic import BaseModel

from minivllm.server.errors import to_api_error

MEDIA_TYPE = "text/event-stream; charset=utf-8"
RESPONSES: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {}}}}
"""OpenAPI schema for routes that can answer with a stream."""
DONE = b"data: [DONE]\n\n"

_log = logging.getLogger("minivllm.server")


def encode_event(chunk: BaseModel, with_usage: bool) -> bytes:
    """Encode a chunk; `with_usage` includes the `usage` field, which is null in most chunks."""
    data = chunk.model_dump_json(exclude=None if with_usage else {"usage"})
    return b"data: " + data.encode() + b"\n\n"


async def until_done(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """Yield `events`, then an error if one ended them, then the end mark."""
    try:
        # Otherwise `events` runs until it is garbage-collected, and its token counts are too late
        # for the log.
        async with aclosing(events):
            async for event in events:
                yield event
    except Exception as error:
        _log.warning("a stream ended with an error", exc_info=error)
        yield b"data: " + json.dumps(to_api_error(error).body()).encode() + b"\n\n"
    yield DONE
