"""`EventHub`: the engine's events over HTTP as server-sent events.

    event: meta     the header of a recording     always first
    event: state    the engine's current state    for late readers; events continue from this state
    id: 412         one event of a recording      in order, or a `log.gap` in place of lost events
    : keep-alive    a comment, after 10 seconds without events

A reader that reconnects with `Last-Event-ID` continues after that event; if the ring has lost the
next ones, a `log.gap` comes first. The stream contains all users' prompts, so it is off by default
and needs the server's key. Readers poll the ring from the event loop, which takes no time in the
engine's thread. The engine's thread reads the state and its event number together.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from minivllm.engine.engine import LLMEngine
from minivllm.errors import InvalidRequestError, MinivllmError, OverloadedError
from minivllm.events import types as ev
from minivllm.events.recording.lines import encode_header
from minivllm.events.state import EngineState
from minivllm.server.feeds.event_ring import EventRing
from minivllm.server.http.streams import Stream

T = TypeVar("T")

NUM_EVENTS = 1 << 15
NUM_PROMPT_TOKENS = 1 << 20
MAX_READERS = 32
SECONDS_BETWEEN_LOOKS = 0.05
KEEP_ALIVE_SECONDS = 10.0


class EventHub:
    """Call `engine.subscribe(hub.apply)` before the first request, so that no event is missing."""

    def __init__(
        self, header: ev.LogHeader, ask_engine: Callable[[Callable[[LLMEngine], T]], Awaitable[T]]
    ) -> None:
        """ask_engine: calls a function in the engine's thread, between two phases"""
        self.begin(header)
        self._ask_engine = ask_engine
        self._end: int | None = None
        self._why_closed: MinivllmError | None = None
        self.num_readers = 0

    def begin(self, header: ev.LogHeader) -> None:
        """Begin a run. Streams of an earlier one end, and their readers connect again."""
        # Each run numbers its events afresh, so it needs an id of its own.
        self._header = msgspec.structs.replace(header, run=uuid.uuid4().hex)
        self._ring = EventRing(header.first_seq, NUM_EVENTS, NUM_PROMPT_TOKENS)
        self.apply: Callable[[ev.Event], None] = self._ring.put
        """The listener. Called in the engine's thread; about as fast as a list append."""

    def close(self, why: MinivllmError) -> None:
        """End streams after the newest event and refuse new readers. Any thread may call this."""
        self._why_closed = why
        self._end = self._ring.next_seq

    def check_in(self) -> None:
        """Count a new reader. Raises `OverloadedError` if there are too many."""
        if self.num_readers >= MAX_READERS:
            raise OverloadedError(f"{MAX_READERS} clients read the events: try again later.", 5)
        self.num_readers += 1

    def check_out(self) -> None:
        self.num_readers -= 1

    async def open(self, last_event_id: int | None) -> tuple[bytes, int]:
        """Return the first data for a reader, and the number of the first event that follows.

        last_event_id: the newest event that the reader has
        """
        if self._why_closed is not None:
            raise self._why_closed
        ring, header = self._ring, self._header
        if last_event_id is not None and header.first_seq <= last_event_id + 1 <= ring.next_seq:
            return _opening(msgspec.structs.replace(header, first_seq=last_event_id + 1))
        if header.first_seq == 0 and ring.has_time(0):
            return _opening(header)
        now, state = await self._ask_engine(lambda it: (it.log_header(), it.inspect()))
        return _opening(msgspec.structs.replace(now, run=header.run), state)

    async def read(self, data: bytes, seq: int) -> AsyncGenerator[bytes, None]:
        """Stream what `open` returned and then events to one reader, until the hub is closed."""
        yield data
        last_sent, ring = time.monotonic(), self._ring
        while self._end is None or seq < self._end:
            data, seq = ring.take(seq)
            if data:
                # While the client does not read, this `yield` does not return; events that the ring
                # drops meanwhile become a gap.
                yield data
            elif ring is not self._ring:
                return  # a new run
            elif time.monotonic() - last_sent > KEEP_ALIVE_SECONDS:
                yield b": keep-alive\n\n"
            else:
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            last_sent = time.monotonic()
            await asyncio.sleep(0)


def _opening(header: ev.LogHeader, state: EngineState | None = None) -> tuple[bytes, int]:
    data = b"event: meta\ndata: %b\n" % encode_header(header)
    if state is not None:
        data += b"event: state\ndata: %b\n\n" % msgspec.json.encode(state)
    return data, header.first_seq


def routes(hub: EventHub) -> list[Route]:
    async def events(request: Request) -> Response:
        """Stream every event of the engine as it happens."""
        last = request.headers.get("last-event-id")
        if last is not None and not (last.isdecimal() and len(last) < 19):
            raise InvalidRequestError("Last-Event-ID must be the number of an event of a stream.")
        hub.check_in()
        try:
            opening = await hub.open(None if last is None else int(last))
        except BaseException:
            hub.check_out()
            raise
        return Stream(hub.read(*opening), "text/event-stream", on_end=hub.check_out)

    return [Route("/events", events)]
