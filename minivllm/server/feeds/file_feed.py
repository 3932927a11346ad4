"""`file_app`: `/events` for a recording that another process writes, for example a real vLLM.

    vLLM -> run.jsonl -> this reader -> minivllm attach http://host:port

It is the event stream of `minivllm serve --events`, with the same keys and the same reconnecting.
"""

import asyncio
import logging
import os
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
        self._path = path
        self.hub = EventHub(self._open(), self._ask)

    def _open(self) -> LogHeader:
        found, recording = _id_of(self._path), Recording(self._path, index=False)
        self._id, self.recording, self._num_sent = found, recording, 0
        recording.index_more(0)  # also the state, if the recording begins in the middle of a run
        return recording.header

    async def _ask(self, question: Callable[["FollowedFile"], T]) -> T:
        return question(self)

    def log_header(self) -> LogHeader:
        header, view = self.recording.header, self.recording.head
        wall = header.wall + view.t - header.mono
        first = max(view.last_seq + 1, header.first_seq)
        return replace(header, wall=wall, mono=view.t, first_seq=first)

    def inspect(self) -> EngineState:
        return self.recording.head.state

    async def follow(self) -> None:
        """Pass on new events, until the file cannot be read any more.

        If another file takes its place, go on with that one: vLLM has started again, or the file
        has reached its size limit.
        """
        problem, missing = None, 0
        while problem is None:
            now, recording = _id_of(self._path), self.recording
            missing = 0 if now else missing + 1
            try:
                is_new = recording.index_more(INDEX_SECONDS) or self._num_sent < len(recording)
                for event in recording.events(self._num_sent, len(recording)):
                    self.hub.apply(event)
                self._num_sent, problem = len(recording), recording.damage
            except EventLogError as error:
                is_new, problem = 0, str(error)
            if missing > 1 and not is_new:  # for a moment, there is none at the limit
                problem = problem or f"{self._path} was removed, so no more events will come."
            if now not in (None, self._id) and not is_new:
                with suppress(EventLogError):  # no header yet
                    self.hub.begin(self._open())
                    recording.close()
                    problem = None
            await asyncio.sleep(0 if is_new else SECONDS_BETWEEN_LOOKS)
        self.hub.close(FeedLostError(problem))


def _id_of(path: str) -> tuple[int, int] | None:
    """Which file has that path now."""
    with suppress(OSError):
        return (found := os.stat(path)).st_dev, found.st_ino
    return None


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
