"""`Generation`: the answers to one HTTP request, as they come out of the engine, for asyncio to
wait on.

It may cover several engine requests (a list of prompts is one each). It knows neither HTTP nor the
engine's thread: the service puts outputs in, in the event loop, and is told when nobody wants more.

The easy thing to get wrong is the end. There are five (all finished, one refused, too slow, the
server ends, the client has gone), each can come at any moment, and after each nothing of it may go
on in the engine. So all go through `_end`, which takes place once.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable

from minivllm.outputs import RequestOutput


class Generation:
    """An async iterator over the outputs; `close` it whenever it is left early."""

    def __init__(self, request_ids: Iterable[str], on_end: Callable[["Generation"], None]) -> None:
        """on_end: called once; `unfinished` then holds the requests that must be aborted"""
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
        """Until there is something to tell; raises if that is an error, so that it can have an HTTP
        status of its own.
        """
        if not self._outputs and not self._ended:
            await self._news.wait()
        if self._error is not None and not self._outputs:
            raise self._error

    def put(self, output: RequestOutput) -> None:
        """An output of one of the requests has come."""
        if self._ended:
            return
        self._outputs.append(output)
        if output.finished:
            self.unfinished.discard(output.request_id)
            if not self.unfinished:
                self._end()
        self._news.set()

    def fail(self, error: BaseException) -> None:
        """One of the requests cannot go on, so none does: the client asked for all of them."""
        if not self._ended:
            self._error = error
            self._end()

    def close(self) -> None:
        """Nobody wants the rest."""
        if not self._ended:
            self._end()

    def _end(self) -> None:
        self._ended = True
        self._news.set()
        self._on_end(self)
