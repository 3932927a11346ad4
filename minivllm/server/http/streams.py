"""`Stream`: a response that is sent while it is made."""

from collections.abc import AsyncGenerator, Callable

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send


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
