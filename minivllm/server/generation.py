"""`Generation`: an async iterator over the engine's outputs for one HTTP request.

An HTTP request can have a list of prompts; each prompt is a request in the engine. The generation
ends when all of these have finished, or early if one is refused, the deadline passes, the server
shuts down, or the client leaves. Then none of them may keep running in the engine. In all cases
`_end` runs, exactly once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from minivllm.outputs import RequestOutput


class Generation:
    """An async iterator over the outputs; call `close` when you leave it early."""

    def __init__(self, request_ids: Iterable[str], on_end: Callable[["Generation"], None]) -> None:
        """on_end: called once at the end; `unfinished` then contains the requests to abort"""
        self.unfinished = set(request_ids)
        self._outputs: deque[RequestOutput] = deque()
        self._error: BaseException | None = None
        self._ended = False
        self._on_end = on_end
        self._news = asyncio.Event()

    def __aiter__(self) -> "Generation":
        return self

    async def __anext__(self) -> RequestOutput:
        while True:
            if self._outputs:
                return self._outputs.popleft()
            if self._error is not None:
                raise self._error
            if self._ended:
                raise StopAsyncIteration
            self._news.clear()
            await self._news.wait()

    async def wait_for_first(self) -> None:
        """Wait for the first output. An error before it is raised, to set the HTTP status."""
        if not self._outputs and not self._ended:
            await self._news.wait()
        if self._error is not None and not self._outputs:
            raise self._error

    def put(self, output: RequestOutput) -> None:
        if self._ended:
            return
        self._outputs.append(output)
        if output.finished:
            self.unfinished.discard(output.request_id)
            if not self.unfinished:
                self._end()
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """The client wants all of its requests or none."""
        if not self._ended:
            self._error = error
            self._end()

    def close(self) -> None:
        if not self._ended:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._news.set()
        self._on_end(self)
