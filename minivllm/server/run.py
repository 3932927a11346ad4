"""`run_server`: uvicorn with our bounds, from a bound socket until SIGTERM or Ctrl-C has been
obeyed in good order.

Knows processes and signals, and nothing of endpoints.

The easy thing to get wrong is the end. On the first signal nobody new is taken and those who are
being served get `drain_timeout` to finish; what is left after that gets an error, and not just a
closed connection. A second signal ends that time at once, and nothing else: those who wait hear
why. And a drained server has done what it was told to: its exit status is 0.
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
"""Bytes of a request's head that h11 takes in before it gives up; `middleware.HeaderBounds` refuses
less, and kindlier.
"""
_KEEP_ALIVE = 5
_GRACE = 1.0
"""Seconds, after the drain, for the last errors to be sent. Then the connections that are left are
aborted.
"""
_FORCE = 5.0
"""Seconds, after those, until uvicorn cancels whatever still runs. It should be nothing."""

_log = logging.getLogger("minivllm.server")


def bind(options: ServerOptions) -> socket.socket:
    """The socket to serve on. Raises `OSError`; call it before the model is loaded, which takes so
    much longer.
    """
    family, *_, address = socket.getaddrinfo(
        options.host, options.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
    )[0]
    # By the protocol's name: only then does asyncio turn Nagle's algorithm off for those who
    # connect. With it an answer in two pieces waits for the client's acknowledgement of the first,
    # which systems delay by 40 ms.
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
    """Where clients find it."""
    host, port = bound.getsockname()[:2]
    return f"http://[{host}]:{port}" if bound.family == socket.AF_INET6 else f"http://{host}:{port}"


class Server(uvicorn.Server):
    """One that drains on the first signal. Without signals (in a test, in a thread) call
    `begin_exit`.
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
        """Call it in the event loop. The second time it does not wait for anybody to finish."""
        # Not uvicorn's `force_exit`: it would cancel those who wait, and leave the application
        # open.
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
        # uvicorn would raise the signal again when it has ended, and so end in failure.
        loop = asyncio.get_running_loop()
        signals = (signal.SIGTERM, signal.SIGINT)
        try:
            for one in signals:
                loop.add_signal_handler(one, self.begin_exit)
        # not in the main thread: whoever runs us there ends us, too
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
    """Serve until a signal says that it is enough."""
    server = Server(app, service, options)
    asyncio.run(server.serve(sockets=[bound]))
    _log.info("ended")
