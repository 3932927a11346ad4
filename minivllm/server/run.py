"""`run_server`: runs uvicorn with our limits until SIGTERM or Ctrl-C, then shuts down cleanly.

After the first signal, new requests are refused, and running requests get `drain_timeout` seconds
to finish, then an error. A second signal ends the waiting at once. The exit status is 0.
"""

import asyncio
import logging
import socket
from typing import Any

import uvicorn
from starlette.applications import Starlette

from minivllm.runtime.cpu.heap import trim_heap
from minivllm.server.options import ServerOptions
from minivllm.server.service import LONG, EngineService

HEAD_SECONDS = 10.0
"""How long a client may take to send the head of a request."""
MAX_CONNECTIONS = 1000
"""A little less than the 1024 file descriptors that a process usually gets."""
MAX_UNREAD_BYTES = 64 << 20
"""Limit for what clients have not read, all together. The largest answers have a few mebibytes."""
SECONDS_BETWEEN_LOOKS = 1.0
_MAX_HEAD = 32 * 1024
"""Longest request head, in bytes."""
_GRACE = 1.0
"""Seconds after the drain in which the last errors can be sent, before connections are aborted."""

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

    def __init__(self, app: Starlette, service: EngineService, options: ServerOptions) -> None:
        super().__init__(
            uvicorn.Config(
                app,
                http="h11",
                ws="none",
                lifespan="on",
                log_config=None,
                access_log=False,
                server_header=False,
                proxy_headers=False,
                limit_concurrency=MAX_CONNECTIONS,
                h11_max_incomplete_event_size=_MAX_HEAD,
            )
        )
        self._service = service
        self._options = options
        self._stuck: dict[Any, tuple[object, float]] = {}
        """For each connection whose client has to send or read: how far it is, and since when."""

    async def startup(self, sockets: list[socket.socket]) -> None:
        await super().startup(sockets)
        told = {"url": url_of(sockets[0]), "api_key": bool(self._options.api_key)}
        _log.info("serving", extra={"fields": told | {"events": self._options.events}})

    async def serve(self, sockets: list[socket.socket]) -> None:
        watching = asyncio.create_task(self._watch_connections())
        try:
            await super().serve(sockets)
        finally:
            watching.cancel()

    async def _watch_connections(self) -> None:
        was_busy = False
        while True:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
            self._close_stuck()
            is_busy = bool(self.server_state.tasks)
            if was_busy and not is_busy and not self.should_exit:
                # Return what a flood left in the C library's heap.
                await self._service.in_worker(LONG + 1, trim_heap)
            was_busy = is_busy

    def _close_stuck(self) -> None:
        """Close connections whose client sends no whole head, or does not read, for too long.

        uvicorn waits for such clients for ever, and they would use up all file descriptors. If
        there is too much unread data in all, also close the connection with the most.
        """
        now, before, unread = asyncio.get_running_loop().time(), self._stuck, {}
        self._stuck = {}
        reading = self._options.request_timeout + _GRACE
        if self.should_exit and not self._service.num_unfinished:
            reading = _GRACE
        for connection in list(self.server_state.connections):
            num_bytes = connection.transport.get_write_buffer_size()
            cycle = connection.cycle
            if num_bytes:
                unread[connection] = num_bytes
                place, seconds = num_bytes, reading
            elif cycle is None or cycle.response_complete:
                place, seconds = cycle, HEAD_SECONDS
            else:
                continue  # the request is under way
            known, since = before.get(connection, (place, now))
            self._stuck[connection] = (place, since if known == place else now)
            if now - self._stuck[connection][1] >= seconds:
                connection.transport.abort()
        while sum(unread.values()) > MAX_UNREAD_BYTES:
            most = max(unread, key=unread.__getitem__)
            most.transport.abort()
            del unread[most]

    def begin_exit(self) -> None:
        """Drain. The second call ends running requests at once. Call this in the event loop."""
        # uvicorn's `force_exit` cancels running requests, and does not close the application.
        seconds = _GRACE
        if self.should_exit:
            self._service.give_up_all()
        else:
            self.should_exit = True
            self._service.begin_drain(self._options.drain_timeout)
            seconds += self._options.drain_timeout
        asyncio.get_running_loop().call_later(seconds, self._abort_connections)

    def _abort_connections(self) -> None:
        for connection in list(self.server_state.connections):
            connection.transport.abort()

    def handle_exit(self, sig: int, frame: object) -> None:
        # uvicorn's own version raises the signal again at the end, so the exit status is a failure.
        asyncio.get_running_loop().call_soon_threadsafe(self.begin_exit)


def run_server(
    app: Starlette, service: EngineService, options: ServerOptions, bound: socket.socket
) -> None:
    server = Server(app, service, options)
    asyncio.run(server.serve(sockets=[bound]))
    _log.info("ended")
