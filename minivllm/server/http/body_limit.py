"""`BodyLimit`: reads a request's whole body, with limits on its size and on the time it takes.

Afterwards, a route only has to wait for a disconnect. `HeldBodies` counts the bytes of all bodies
whose requests are being received or answered. Above a limit, large bodies are refused with status
429; small bodies are always accepted.

Large bodies and answers leave free holes in the C library's heap. `HeldBodies` reports when a flood
of large bodies or answers is over, and `trim_heap` returns the holes to the system.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from starlette.datastructures import Headers
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from minivllm.errors import OverloadedError
from minivllm.server.errors import ApiError, to_api_error

ALWAYS_TAKEN = 64 * 1024
"""A body of this size is always accepted; a thousand take 64 MiB."""
BODIES_TOGETHER = 32
"""How many bodies of the largest size can be in memory at once."""
_FLOOD = 256 * 1024
"""Bytes of all bodies, or of a single answer, that count as a flood."""
_PAUSE = 0.01
"""Seconds between two large bodies, so that a small request can run in between."""
_MAX_DISCARDED = 16 << 20
"""Maximum number of bytes of a refused body that are read and discarded."""


class HeldBodies:
    """Counts the bytes of all request bodies in memory. Used only in the event loop."""

    def __init__(self, max_bytes: int, on_passed: Callable[[], None]) -> None:
        """on_passed: called when a flood is over: nearly all of its bytes have been given back"""
        self.num_bytes = 0
        self._max_bytes = max_bytes
        self._on_passed = on_passed
        self._most = 0

    def take(self, num_bytes: int, of_body: int) -> None:
        """Count `num_bytes` more bytes of a body. Raises `OverloadedError` if that is too much.

        of_body: how many bytes of the body have arrived, including these
        """
        if of_body > ALWAYS_TAKEN and self.num_bytes + num_bytes > self._max_bytes:
            raise OverloadedError(
                "The server already holds too many large requests: try again later.", retry_after=1
            )
        self.num_bytes += num_bytes
        self._most = max(self._most, self.num_bytes)

    def note_answer(self, num_bytes: int) -> None:
        """Building a piece of an answer takes many times as much memory."""
        self._most = max(self._most, num_bytes)

    def give_back(self, num_bytes: int) -> None:
        self.num_bytes -= num_bytes
        if self._most >= _FLOOD and self.num_bytes <= self._most // 16:
            self._most = self.num_bytes
            self._on_passed()


class _ClientGoneError(Exception):
    """The client has disconnected."""


class BodyLimit:
    """The last middleware before the routes."""

    def __init__(
        self, app: ASGIApp, max_bytes: int, timeout: float, on_passed: Callable[[], None]
    ) -> None:
        """
        timeout: seconds that a client has to send its body; on_passed: see `HeldBodies`
        """
        self._app = app
        self._max_bytes = max_bytes
        self._timeout = timeout
        self._turn = asyncio.Lock()
        self._held = HeldBodies(BODIES_TOGETHER * max_bytes, on_passed)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        body = bytearray()
        try:
            if (refusal := await self._read(body, scope, receive)) is not None:
                await refusal(scope, receive, send)
                return
            if len(body) > ALWAYS_TAKEN:
                await self._wait_for_turn()
            messages: list[Message] = [
                {"type": "http.request", "body": bytes(body), "more_body": False}
            ]

            async def replay() -> Message:
                return messages.pop() if messages else await receive()

            async def noted(message: Message) -> None:
                self._held.note_answer(len(message.get("body", b"")))
                await send(message)

            await self._app(scope, replay, noted)
        except _ClientGoneError:
            pass
        finally:
            self._held.give_back(len(body))

    async def _wait_for_turn(self) -> None:
        """Pause before a large body, so that small requests can run.

        Handling a large body blocks the event loop for about a tenth of a second.
        """
        async with self._turn:
            for _ in range(3):  # in this time the previous large body is parsed and checked
                await asyncio.sleep(0)
            await asyncio.sleep(_PAUSE)

    async def _read(self, body: bytearray, scope: Scope, receive: Receive) -> Response | None:
        """Append the whole body to `body`; if it is refused, return the error response.

        Raises `_ClientGoneError`.
        """
        headers, pieces = Headers(scope=scope), _pieces(receive)
        try:
            async with asyncio.timeout(self._timeout):
                await self._take(pieces, body, headers)
        except TimeoutError:
            return ApiError(
                408, f"The request body did not arrive within {self._timeout:g} seconds.",
                code="body_timeout", headers={"Connection": "close"},
            ).response()  # fmt: skip
        except (ApiError, OverloadedError) as error:
            self._held.give_back(len(body))
            body.clear()
            if "expect" not in headers:  # with Expect, the client has not started to send
                await self._discard(pieces)
            return to_api_error(error).response()
        return None

    async def _take(self, pieces: AsyncIterator[bytes], body: bytearray, headers: Headers) -> None:
        declared = headers.get("content-length", "0")
        if declared.isdigit() and int(declared[:20]) > self._max_bytes:
            raise self._too_large()
        async for piece in pieces:
            if len(body) + len(piece) > self._max_bytes:
                raise self._too_large()
            self._held.take(len(piece), len(body) + len(piece))
            body += piece

    async def _discard(self, pieces: AsyncIterator[bytes]) -> None:
        """Read and drop the rest of a refused body, up to a limit.

        If we closed the connection while the client still sends, it would never read the answer.
        """
        left = _MAX_DISCARDED
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._timeout):
                async for piece in pieces:
                    left -= len(piece)
                    if left <= 0:
                        return

    def _too_large(self) -> ApiError:
        return ApiError(
            413, f"The body is larger than {self._max_bytes} bytes: send a shorter prompt.",
            code="request_too_large", headers={"Connection": "close"},
        )  # fmt: skip


async def _pieces(receive: Receive) -> AsyncIterator[bytes]:
    """Yield the rest of a body piece by piece. Raises `_ClientGoneError`."""
    while True:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise _ClientGoneError
        yield message.get("body", b"")
        if not message.get("more_body", False):
            return
