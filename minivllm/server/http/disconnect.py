"""Noticing that a client has gone, with a streamed answer and with one that is still being made.

Knows ASGI and nothing of the engine: it cancels whatever was working for that client, and the
cancelled clean up.

The easy thing to get wrong is that nobody does this for us. Starlette watches the client of a
stream, and for an ordinary route not at all: it computes to the end for nobody. And a client that
is there but does not read stops us in the middle of a `send`, so a stream ends from outside, too.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


async def _disconnect(receive: Receive) -> None:
    """Until the client has gone. The body has been read (`middleware.BodyLimit`), so nothing else
    can come.
    """
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """The result of `work`; None, with `work` cancelled and cleaned up, if the client goes
    before.
    """
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        await _cancel(working, leaving)


class StreamedResponse(Response):
    """Sends pieces as they come, until they end, the client goes, or `until()` returns."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        until: Callable[[], Coroutine[Any, Any, None]],
        on_end: Callable[[], None],
    ) -> None:
        """on_end: called however it ends, also if it never began (then nothing in `pieces` has ever
        run)
        """
        self._pieces = pieces
        self._on_end = on_end
        self._until = until
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        # Whoever stands between us and the client must pass each piece on at once.
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    def init_headers(self, headers: Any = None) -> None:
        # Without a body there is no length to announce.
        self.body = b""
        super().init_headers(headers)
        del self.headers["content-length"]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(_disconnect(receive))
        over = asyncio.ensure_future(self._until())
        try:
            await asyncio.wait((sending, leaving, over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            await _cancel(sending, leaving, over)
            self._on_end()
            await self._pieces.aclose()
        if not sending.cancelled() and (error := sending.exception()) is not None:
            raise error

    async def _send(self, send: Send) -> None:
        await send(
            {"type": "http.response.start", "status": self.status_code, "headers": self.raw_headers}
        )
        async for piece in self._pieces:
            await send({"type": "http.response.body", "body": piece, "more_body": True})
        await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _cancel(*tasks: asyncio.Future[Any]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
