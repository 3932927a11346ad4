"""`JsonRoute`: reads a JSON body within limits, and ends the work when its client leaves.

A body has one limit of size and one of time. All bodies together may take as many bytes as
`BODIES_TOGETHER` of the largest size; beyond that, large ones get status 429.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import msgspec
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from minivllm.errors import OverloadedError, RequestTimeoutError
from minivllm.server.errors import TOO_LATE, ApiError, invalid_body

ALWAYS_TAKEN = 64 * 1024
"""A body of this size is always accepted; a thousand take 64 MiB."""
BODIES_TOGETHER = 32

Body = TypeVar("Body")


class Bodies:
    """Reads the bodies of all requests, and counts their bytes until they are answered."""

    def __init__(self, max_bytes: int, timeout: float) -> None:
        """max_bytes: longest body; timeout: seconds that a client has to send it"""
        self.num_bytes = 0
        self._max_bytes = max_bytes
        self._timeout = timeout

    @asynccontextmanager
    async def read(self, request: Request) -> AsyncIterator[bytes]:
        """Yield the body of a request. Raises `ApiError` or `OverloadedError`."""
        body = bytearray()
        try:
            try:
                async with asyncio.timeout(self._timeout):
                    await self._take(request, body)
            except TimeoutError:
                raise ApiError(
                    408, f"The request body did not arrive within {self._timeout:g} seconds.",
                    "body_timeout", headers={"Connection": "close"},
                ) from None  # fmt: skip
            yield bytes(body)
        finally:
            self.num_bytes -= len(body)

    async def _take(self, request: Request, body: bytearray) -> None:
        refusal: Exception | None = None
        async for piece in request.stream():
            # Read a refused body to its end: a client that is still sending reads no answer.
            if refusal is not None:
                continue
            body += piece
            self.num_bytes += len(piece)
            if len(body) > self._max_bytes:
                refusal = ApiError(
                    413, f"The body is larger than {self._max_bytes} bytes: send a shorter prompt.",
                    "request_too_large",
                )  # fmt: skip
            elif len(body) > ALWAYS_TAKEN and self.num_bytes > BODIES_TOGETHER * self._max_bytes:
                refusal = OverloadedError("Too many large requests at once: try again later.", 1)
            if refusal is not None:
                self.num_bytes -= len(body)
                body.clear()
        if refusal is not None:
            raise refusal


class JsonRoute(Route):
    """`POST path`: `handle` gets the decoded body. The application's state has the `Bodies`."""

    def __init__(
        self,
        path: str,
        handle: Callable[[Body, Request], Awaitable[Response]],
        body_type: type[Body],
    ) -> None:
        self.body_type = body_type
        decoder = msgspec.json.Decoder(body_type)

        async def endpoint(request: Request) -> Response:
            try:
                async with request.app.state.bodies.read(request) as text:
                    return await _unless_it_ends(request, handle(_decode(decoder, text), request))
            except RecursionError:
                message = "The body is nested too deeply: send fewer levels."
                raise ApiError(400, message, "invalid_json") from None

        endpoint.__doc__ = handle.__doc__
        super().__init__(path, endpoint, methods=["POST"])


def _decode(decoder: msgspec.json.Decoder[Body], text: bytes) -> Body:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError as error:
        raise invalid_body(error) from None
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise ApiError(400, f"The body cannot be read: {error}.", "invalid_json") from None


async def _unless_it_ends(request: Request, work: Awaitable[Response]) -> Response:
    """Return the result of `work`: an answer or a started stream.

    Cancels it when the client disconnects, or at the deadline.
    """
    working, leaving = asyncio.ensure_future(work), asyncio.ensure_future(_disconnect(request))
    seconds = request.state.deadline - asyncio.get_running_loop().time()
    try:
        await asyncio.wait((working, leaving), timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        if working.done():
            return working.result()
        if leaving.done():
            raise ClientDisconnect
        raise RequestTimeoutError(TOO_LATE)
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)


async def _disconnect(request: Request) -> Any:
    """Wait for the disconnect. The body has been read, so no other message can arrive."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
