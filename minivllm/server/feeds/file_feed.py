"""`file_app`: `/events` for a recording that another process writes, for example a real vLLM.

    vLLM -> run.jsonl -> this reader -> minivllm attach http://host:port

It is the event stream of `minivllm serve --events`, with the same keys and the same reconnecting.
"""

import asyncio
import logging
import socket
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import uvicorn
from msgspec.structs import replace
from starlette.applications import Starlette
from starlette.middleware import Middleware

from minivllm.errors import EventLogError, FeedLostError
from minivllm.events.recording.recording import Recording
from minivllm.events.state import EngineState
from minivllm.events.types import LogHeader
from minivllm.server.errors import HANDLERS
from minivllm.server.feeds import event_hub
from minivllm.server.feeds.event_hub import SECONDS_BETWEEN_LOOKS, EventHub
from minivllm.server.http.middleware import Access
from minivllm.server.options import ServerOptions
from minivllm.server.run import url_of

T = TypeVar("T")
INDEX_SECONDS = 0.02
"""Longest time between two looks at the clients."""


class FollowedFile:
    """Has what the event hub asks an engine for."""

    def __init__(self, path: str) -> None:
        """Raises `EventLogError`."""
        self.recording = Recording(path, index=False)
        self.hub = EventHub(self.recording.header, self._ask)

    async def _ask(self, question: Callable[["FollowedFile"], T]) -> T:
        return question(self)

    def log_header(self) -> LogHeader:
        header, view = self.recording.header, self.recording.head
        wall = header.wall + view.t - header.mono
        return replace(header, wall=wall, mono=view.t, first_seq=view.last_seq + 1)

    def inspect(self) -> EngineState:
        return self.recording.head.state

    async def follow(self) -> None:
        """Pass on new events, until the file cannot be read any more."""
        recording, problem, is_new = self.recording, None, 0
        while problem is None:
            known = len(recording)
            try:
                is_new = recording.index_more(INDEX_SECONDS)
                for event in recording.events(known, len(recording)):
                    self.hub.apply(event)
                problem = recording.damage
            except EventLogError as error:
                problem = str(error)
            await asyncio.sleep(0 if is_new else SECONDS_BETWEEN_LOOKS)
        self.hub.close(FeedLostError(problem))


def file_app(path: str, options: ServerOptions) -> Starlette:
    """Raises `EventLogError` if the file is no recording."""
    followed = FollowedFile(path)

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        task = asyncio.create_task(followed.follow())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            followed.recording.close()

    return Starlette(
        routes=event_hub.routes(followed.hub),
        middleware=[Middleware(Access, hosts=options.host_names, keys=options.api_key)],
        exception_handlers=HANDLERS,
        lifespan=lifespan,
    )


def serve_file(path: str, options: ServerOptions, bound: socket.socket) -> None:
    """Serve until SIGTERM or Ctrl-C."""
    app = file_app(path, options)
    logging.getLogger("minivllm.server").info(
        "serving", extra={"fields": {"url": url_of(bound), "api_key": bool(options.api_key)}}
    )
    config = uvicorn.Config(app, http="h11", ws="none", log_config=None, access_log=False,
                            server_header=False, timeout_graceful_shutdown=1)  # fmt: skip
    uvicorn.Server(config).run(sockets=[bound])
