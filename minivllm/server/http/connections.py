"""`BoundedConnection`: uvicorn's HTTP/1.1 connection with time limits and memory limits.

uvicorn never closes a connection if the client sends nothing or stops inside the headers. A few
hundred such connections use up all file descriptors, so every request head must arrive in time.

A client that does not read its answer is cut off after `unread_seconds`; a normal close would wait
until everything is sent. If all connections together have more than `MAX_UNREAD_BYTES`, the one
with the most unread bytes is aborted at once.
"""

import asyncio
from typing import Any

from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0
MAX_CONNECTIONS = 1000
"""A little less than the 1024 file descriptors that a process usually gets."""
MAX_UNREAD_BYTES = 64 << 20
"""Limit for all connections together. The largest answers have a few mebibytes."""


class BoundedConnection(H11Protocol):
    """Use it as `uvicorn.Config(http=partial(BoundedConnection, unread_seconds=...))`."""

    def __init__(self, *args: Any, unread_seconds: float, **options: Any) -> None:
        """unread_seconds: how long an answer may wait for a client that does not read it"""
        super().__init__(*args, **options)
        self._unread_seconds = unread_seconds
        self._clock: asyncio.TimerHandle | None = None
        self._unread_clock: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)
        # With a limit of 0, `pause_writing` is called as soon as the buffer contains any byte.
        transport.set_write_buffer_limits(0)
        if len(self.connections) > MAX_CONNECTIONS:
            transport.close()
        self._set_clock()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._set_clock()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_clock()
        self._stop_unread_clock()

    def pause_writing(self) -> None:
        super().pause_writing()
        if self._unread_clock is None:
            self._unread_clock = self.loop.call_later(self._unread_seconds, self.abort)
        self._bound_unread()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._stop_unread_clock()

    def abort(self) -> None:
        """Close the connection and drop its unread bytes."""
        self.transport.abort()

    def _bound_unread(self) -> None:
        unread = {connection: connection.num_unread_bytes for connection in self.connections}
        while sum(unread.values()) > MAX_UNREAD_BYTES:
            most = max(unread, key=unread.__getitem__)
            most.abort()
            del unread[most]

    @property
    def num_unread_bytes(self) -> int:
        return self.transport.get_write_buffer_size()

    def _set_clock(self) -> None:
        if not self._waits_for_head:
            self._stop_clock()
        elif self._clock is None:
            self._clock = self.loop.call_later(HEAD_SECONDS, self._give_up)

    def _stop_clock(self) -> None:
        if self._clock is not None:
            self._clock.cancel()
            self._clock = None

    def _stop_unread_clock(self) -> None:
        if self._unread_clock is not None:
            self._unread_clock.cancel()
            self._unread_clock = None

    @property
    def _waits_for_head(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def _give_up(self) -> None:
        self._clock = None
        if self._waits_for_head:
            self.transport.close()
