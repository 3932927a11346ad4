"""A server without a socket: clients call the application, whose event loop runs in a thread."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from threading import Thread

import httpx2
from starlette.types import ASGIApp, Message

from minivllm.engine.engine import LLMEngine
from minivllm.server.options import ServerOptions
from support.patience import SOON
from support.server.live_server import LiveServer, fake_engine

URL = "http://localhost"


class Exchange(httpx2.SyncByteStream):
    """A request under way, its answer, and a client that can leave."""

    def __init__(
        self, app: ASGIApp, loop: asyncio.AbstractEventLoop, request: httpx2.Request
    ) -> None:
        self._loop = loop
        self._body = list(request.stream) or [b""]
        self._gone = asyncio.Event()
        self._sent: SimpleQueue[Message] = SimpleQueue()
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        scope = {
            "type": "http", "method": request.method, "path": request.url.path,
            "query_string": request.url.query, "headers": headers,
        }  # fmt: skip
        call = app(scope, self._receive, self._send)
        self.ended = asyncio.run_coroutine_threadsafe(call, loop)

    def response(self) -> httpx2.Response:
        """Wait until the answer begins."""
        start = self._sent.get(timeout=SOON)
        return httpx2.Response(start["status"], headers=start["headers"], stream=self)

    def __iter__(self) -> Iterator[bytes]:
        more = True
        while more:
            message = self._sent.get(timeout=SOON)
            more = message.get("more_body", False)
            yield message.get("body", b"")

    def leave(self) -> None:
        self._loop.call_soon_threadsafe(self._gone.set)

    close = leave

    async def _receive(self) -> Message:
        if self._body:
            piece = self._body.pop(0)
            return {"type": "http.request", "body": piece, "more_body": bool(self._body)}
        await self._gone.wait()
        return {"type": "http.disconnect"}

    async def _send(self, message: Message) -> None:
        self._sent.put(message)


class Transport(httpx2.BaseTransport):
    """Carries the requests of all clients of one application."""

    def __init__(self, app: ASGIApp, loop: asyncio.AbstractEventLoop) -> None:
        self._app, self._loop = app, loop

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        return Exchange(self._app, self._loop, request).response()

    def ask(
        self, method: str, path: str, body: dict, headers: dict[str, str] | None = None
    ) -> Exchange:
        """Send a request without waiting; `leave` is then the client's disconnect."""
        request = httpx2.Request(method, URL + path, json=body, headers=headers)
        return Exchange(self._app, self._loop, request)


@contextmanager
def running(app: ASGIApp, loop: asyncio.AbstractEventLoop) -> Iterator[Transport]:
    """The application's event loop, in a thread; at the end it is closed."""
    thread = Thread(target=loop.run_forever, daemon=True)
    thread.start()
    life = app.router.lifespan_context(app)
    asyncio.run_coroutine_threadsafe(life.__aenter__(), loop).result(SOON)
    try:
        yield Transport(app, loop)
    finally:
        asyncio.run_coroutine_threadsafe(life.__aexit__(None, None, None), loop).result(SOON)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SOON)
        loop.close()


@contextmanager
def in_process(engine: LLMEngine | None = None, **options: object) -> Iterator[LiveServer]:
    """Like `live_server.serving`, without uvicorn."""
    settings = ServerOptions(**options)
    live, app = LiveServer.around(engine or fake_engine(), settings, URL)
    with running(app, live.loop) as live.transport:
        try:
            yield live
        finally:
            live.open_gate()
