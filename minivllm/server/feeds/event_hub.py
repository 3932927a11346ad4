"""`EventHub`: the engine's events over HTTP, for `minivllm attach` and `once`, as server-sent
events.

    event: meta     the header of a recording          always first
    event: state    the engine as it is now            for who comes late; the events go on from
                                                   there
    id: 412         one event, as in a recording       one after the other, or a `log.gap` where
                                                   some are lost
    : keep-alive    nothing, every few seconds

Who comes back with `Last-Event-ID` goes on where it was, as long as the ring has it. Prompts and
outputs of everybody stand in this stream, so it is off unless asked for, and behind the server's
key.

Readers run in the server's event loop and look for news twenty times a second; nothing in the
engine's thread knows of them. The easy thing to get wrong is the beginning: state and event number
must belong to the same moment, so both are taken in one call in the engine's thread.
"""

import asyncio
import time
import uuid
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import Future
from typing import Annotated, NamedTuple

import msgspec
from fastapi import APIRouter, Header, Response

from minivllm.engine.engine import LLMEngine
from minivllm.errors import InvalidRequestError, MinivllmError, OverloadedError
from minivllm.events import types as ev
from minivllm.events.recording.lines import encode_header
from minivllm.events.state import EngineState
from minivllm.server.errors import ERROR_RESPONSES
from minivllm.server.feeds.event_ring import EventRing
from minivllm.server.http import sse
from minivllm.server.http.disconnect import StreamedResponse

NUM_EVENTS = 1 << 15
NUM_PROMPT_TOKENS = 1 << 20
MAX_READERS = 32
SECONDS_BETWEEN_LOOKS = 0.05
KEEP_ALIVE_SECONDS = 10.0
LAST_SECONDS = 1.0
"""What a reader has, once the hub is closed, to read the rest."""
SNAPSHOT_SECONDS = 1.0
"""Who comes within this time of another gets the same snapshot: strangers must not make the engine
take many.
"""


_RESPONSES = {**ERROR_RESPONSES, **sse.RESPONSES}


class Snapshot(NamedTuple):
    """An engine between two phases, and the number of the event that comes next (in the header)."""

    header: ev.LogHeader
    state: EngineState


def take_snapshot(engine: LLMEngine) -> Snapshot:
    """For `EngineThread.call`: in the engine's thread both are of the same moment."""
    return Snapshot(engine.log_header(), engine.inspect())


class Opening(NamedTuple):
    """What a reader gets first, and the number of its first event."""

    data: bytes
    next_seq: int


class EventHub:
    """`engine.subscribe(hub.apply)` before the engine has its first request: it is taken to be
    idle.
    """

    def __init__(
        self,
        header: ev.LogHeader,
        inspect: Callable[[], Future[Snapshot]],
        *,
        num_events: int = NUM_EVENTS,
        num_prompt_tokens: int = NUM_PROMPT_TOKENS,
        max_readers: int = MAX_READERS,
    ) -> None:
        """
        inspect: `lambda: engine_thread.call(take_snapshot)`
        num_events, num_prompt_tokens: how much is kept, for readers that are slow or were away
        """
        # Numbers alone do not tell one run from the next.
        self._header = msgspec.structs.replace(header, run=uuid.uuid4().hex)
        self._ring = EventRing(header.first_seq, num_events, num_prompt_tokens)
        self.apply: Callable[[ev.Event], None] = self._ring.put
        """The listener. In the engine's thread; about as quick as appending to a list."""
        self._inspect = inspect
        self._snapshot: Snapshot | None = None
        self._snapshot_time = 0.0
        self._snapshot_lock = asyncio.Lock()
        self._end: int | None = None
        self._why_closed: MinivllmError | None = None
        self.max_readers = max_readers
        self.num_readers = 0

    def close(self, why: MinivllmError) -> None:
        """End every reader's stream with the last event so far, and take no more readers. From any
        thread.
        """
        self._why_closed = why
        self._end = self._ring.next_seq

    async def wait_closed(self) -> None:
        """Until the hub is closed and its readers have had time to read to the end."""
        while self._end is None:
            await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
        await asyncio.sleep(LAST_SECONDS)

    def check_in(self) -> None:
        """One reader more, until `check_out`. Raises `OverloadedError` if there are too many."""
        if self.num_readers >= self.max_readers:
            raise OverloadedError(
                f"{self.max_readers} readers follow the events already: try again later.", 5
            )
        self.num_readers += 1

    def check_out(self) -> None:
        self.num_readers -= 1

    async def open(self, last_event_id: int | None) -> Opening:
        """`last_event_id`: what the reader has already. Raises what the hub was closed with, or
        `EngineDeadError`.
        """
        if self._why_closed is not None:
            raise self._why_closed
        ring, header = self._ring, self._header
        if last_event_id is not None and header.first_seq <= last_event_id + 1 <= ring.next_seq:
            return _opening(msgspec.structs.replace(header, first_seq=last_event_id + 1))
        if ring.has_time(header.first_seq):
            # all that ever happened is still here, and will be when the reader gets
            # to it
            return _opening(header)
        async with self._snapshot_lock:
            snapshot = self._snapshot
            is_old = time.monotonic() - self._snapshot_time > SNAPSHOT_SECONDS
            if snapshot is None or is_old or not ring.has_time(snapshot.header.first_seq):
                snapshot = self._snapshot = await asyncio.wrap_future(self._inspect())
                self._snapshot_time = time.monotonic()
        return _opening(msgspec.structs.replace(snapshot.header, run=header.run), snapshot.state)

    async def read(self, opening: Opening) -> AsyncGenerator[bytes, None]:
        """The stream of one reader; it ends when the reader leaves or the hub is closed."""
        yield opening.data
        seq, last_sent = opening.next_seq, time.monotonic()
        while self._end is None or seq < self._end:
            piece = self._ring.take(seq)
            seq = piece.next_seq
            if piece.data:
                # With a reader that does not read we stand here, and what it loses meanwhile is a
                # gap.
                yield piece.data
            elif time.monotonic() - last_sent > KEEP_ALIVE_SECONDS:
                yield b": keep-alive\n\n"
            else:
                await asyncio.sleep(SECONDS_BETWEEN_LOOKS)
                continue
            last_sent = time.monotonic()
            await asyncio.sleep(0)


def _opening(header: ev.LogHeader, state: EngineState | None = None) -> Opening:
    data = b"event: meta\ndata: %b\n" % encode_header(header)
    if state is not None:
        data += b"event: state\ndata: %b\n\n" % msgspec.json.encode(state)
    return Opening(data, header.first_seq)


def router(hub: EventHub) -> APIRouter:
    """`GET /events`."""
    routes = APIRouter()

    @routes.get("/events", response_class=Response, responses=_RESPONSES)
    async def events(last_event_id: Annotated[str | None, Header()] = None) -> Response:
        """Everything that the engine decides, as it happens."""
        if last_event_id is not None and not (
            last_event_id.isdecimal() and len(last_event_id) < 19
        ):
            raise InvalidRequestError(
                "Last-Event-ID must be the number of an event, as this stream sent it."
            )
        hub.check_in()
        try:
            opening = await hub.open(None if last_event_id is None else int(last_event_id))
        except BaseException:
            hub.check_out()
            raise
        return StreamedResponse(
            hub.read(opening), "text/event-stream", until=hub.wait_closed, on_end=hub.check_out
        )

    return routes
