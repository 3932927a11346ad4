"""Server-sent events as OpenAI's clients read them.

An error in the middle of a stream comes as an event of its own, because the status was sent long
ago, and `[DONE]` still ends the stream. Each event ends with two newlines: with one, clients see no
event at all.
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
"""For the OpenAPI of a route that may answer with a stream."""
DONE = b"data: [DONE]\n\n"

_log = logging.getLogger("minivllm.server")


def event(chunk: BaseModel, with_usage: bool) -> bytes:
    """`with_usage`: a client that asked for usage gets the field in each chunk, and null in
    most.
    """
    data = chunk.model_dump_json(exclude=None if with_usage else {"usage"})
    return b"data: " + data.encode() + b"\n\n"


async def until_done(events: AsyncGenerator[bytes, None]) -> AsyncGenerator[bytes, None]:
    """`events`, then an error if one ended them, then the end mark."""
    try:
        # Closed by us, or it would end only when the garbage is collected, and count its tokens too
        # late for the log.
        async with aclosing(events):
            async for one in events:
                yield one
    except Exception as error:
        _log.warning("a stream broke off", exc_info=error)
        yield b"data: " + json.dumps(to_api_error(error).body()).encode() + b"\n\n"
    yield DONE
