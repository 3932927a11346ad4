"""Cancel the work for a client that has disconnected, for streams and for ordinary answers.

For an ordinary route, Starlette computes to the end even if the client has disconnected. If a
connected client stops reading, `send` never returns, so a stream can also be ended from outside
(`until`).
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from typing import Any, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

T = TypeVar("T")


async def _disconnect(receive: Receive) -> None:
    """Wait for the disconnect. `BodyLimit` has read the body, so no other message can arrive."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def unless_disconnected(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Return the result of `work`. If the client disconnects first, cancel it and return None."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        await _cancel(working, leaving)


class StreamedResponse(Response):
    """Sends `pieces` until there are no more, the client disconnects, or `until()` returns."""

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media_type: str,
        until: Callable[[], Coroutine[Any, Any, None]],
        on_end: Callable[[], None],
    ) -> None:
        """on_end: called once, even if sending never starts and so `pieces` never runs"""
        self._pieces = pieces
        self._on_end = on_end
        self._until = until
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        # Ask a proxy between us and the client not to buffer the pieces.
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no"})

    def init_headers(self, headers: Any = None) -> None:
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
