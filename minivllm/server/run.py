"""`run_server`: runs uvicorn with our limits until SIGTERM or Ctrl-C, then shuts down cleanly.

After the first signal, new requests are refused, and running requests get `drain_timeout` seconds
to finish, then an error. A second signal ends the waiting at once. The exit status after a clean
shutdown is 0.
"""

import asyncio
import contextlib
import logging
import signal
import socket
from collections.abc import Iterator
from functools import partial

import uvicorn
from fastapi import FastAPI

from minivllm.server.http.connections import BoundedConnection
from minivllm.server.options import ServerOptions
from minivllm.server.service import EngineService

_MAX_INCOMPLETE_EVENT = 64 * 1024
"""Longest request head that h11 buffers, in bytes. `middleware.HeaderBounds` has a lower limit,
because its error is clearer.
"""
_KEEP_ALIVE = 5
_GRACE = 1.0
"""Seconds after the drain in which the last errors can be sent, before connections are aborted."""
_FORCE = 5.0
"""Seconds after `_GRACE` until uvicorn cancels running tasks; none should be left then."""

_log = logging.getLogger("minivllm.server")


def bind(options: ServerOptions) -> socket.socket:
    """Bind the socket to serve on. Call it before loading the model. Raises `OSError`."""
    family, *_, address = socket.getaddrinfo(
        options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    # Only with the protocol's name does asyncio turn off Nagle's algorithm, which would delay the
    # second piece of an answer by 40 ms.
    bound = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.bind(address)
    except OSError as error:
        bound.close()
        raise OSError(
            error.errno,
            f"cannot serve on {options.host}:{options.port} ({error.strerror}): choose another"
            " --port",
        ) from None
    return bound


def url_of(bound: socket.socket) -> str:
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if bound.family == socket.AF_INET6 else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """A uvicorn server that drains on the first signal. Where there are no signals (in a test, in a
    thread), call `begin_exit`.
    """

    def __init__(self, app: FastAPI, service: EngineService, options: ServerOptions) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http=partial(BoundedConnection, unread_seconds=options.request_timeout + _GRACE),
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                timeout_keep_alive=_KEEP_ALIVE,
                h11_max_incomplete_event_size=_MAX_INCOMPLETE_EVENT,
                timeout_graceful_shutdown=int(options.drain_timeout + _GRACE + _FORCE),
            )
        )
        self._service = service
        self._options = options

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if self.started:
            urls = [url_of(one) for one in sockets or ()]
            told = {
                "url": urls[0] if urls else None,
                "api_key": bool(self._options.api_key),
                "events": self._options.events,
            }
            _log.info("serving", extra={"fields": told})

    def begin_exit(self) -> None:
        """Drain. The second call ends running requests at once. Call this in the event loop."""
        # uvicorn's `force_exit` cancels running requests, and does not close the application.
        if self.should_exit:
            self._service.give_up_all()
            self._abort_soon(_GRACE)
            return
        self.should_exit = True
        self._service.begin_drain(self._options.drain_timeout)
        self._abort_soon(self._options.drain_timeout + _GRACE)

    def _abort_soon(self, seconds: float) -> None:
        asyncio.get_running_loop().call_later(seconds, self._abort_connections)

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.abort()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        # uvicorn's own version raises the signal again at the end, so the exit status is a failure.
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        try:
            for one in signals:
                loop.add_signal_handler(one, self.begin_exit)
        # We are not in the main thread, so there are no signals: our caller ends the server.
        except (ValueError, RuntimeError):
            yield
            return
        try:
            yield
        finally:
            for one in signals:
                loop.remove_signal_handler(one)


def run_server(
    app: FastAPI, service: EngineService, options: ServerOptions, bound: socket.socket
) -> None:
    server = Server(app, service, options)
    asyncio.run(server.serve(sockets=[bound]))
    _log.info("ended")
