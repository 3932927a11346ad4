"""`EventStream`: a thread that reads a server's `/events` and reconnects after a lost connection.

`GET /events` answers with server-sent events: first `meta` with the header line, then, if the
engine has already run, `state`, then one message per event. A reconnect sends `Last-Event-ID`.
`close` shuts the socket down: a thread that waits for a silent server would not see a flag.
"""

import contextlib
import http.client
import os
import socket
from collections import deque
from threading import Event, Thread
from typing import NamedTuple
from urllib.parse import SplitResult

from minivllm.errors import EventLogError
from minivllm.events.recording.lines import decode_header, encode_header, state_line
from minivllm.events.recording.stitching import AnotherRunError, Stitcher
from minivllm.events.types import LogHeader
from minivllm.tui.sources.source import SourceStatus

API_KEY = "VLLM_API_KEY"
"""vLLM's environment variable. No command-line option: other users of a machine can see those. Nor
is `OPENAI_API_KEY` used: OpenAI's key must not be sent to an arbitrary server.
"""
MAX_MESSAGE_BYTES = 1 << 26
"""Size limit of a message. No state or event is this large, so the sender is not our server."""


class SseMessage(NamedTuple):
    event: str
    """`message` if the server gives no name."""
    data: bytes


class SseParser:
    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[SseMessage]:
        """The messages that `data` completes. Raises `EventLogError` if a message is too long."""
        *blocks, self._rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._rest) > MAX_MESSAGE_BYTES:
            raise EventLogError("it sends a message that does not end")
        return [message for block in blocks if (message := _parse(block)) is not None]


def _parse(block: bytes) -> SseMessage | None:
    event, data = "message", []
    for line in block.split(b"\n"):
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"event":
            event = value.decode(errors="replace")
        elif name == b"data":
            data.append(value)
    return SseMessage(event, b" ".join(data)) if data else None


CONNECT_SECONDS = 5.0
FIRST_DELAY = 0.5
LAST_DELAY = 5.0
READ_BYTES = 1 << 16
MAX_WAITING_LINES = 100_000
"""Stop reading while this many lines wait. The server then drops events and reports a gap."""


class EventStream:
    def __init__(self, url: SplitResult) -> None:
        self._url = url
        self.lines: deque[bytes] = deque()
        """Lines to pop from the left, beginning with the header. A line can be empty."""
        self.status = SourceStatus("lost", f"Connecting to {self._name}.")
        self.trouble = f"{self._name} does not answer"
        """Why the connection is lost, as in `status` but without the time of the next attempt."""
        self.header: LogHeader | None = None
        self.settled = Event()
        """Set once a header has arrived, or once it is certain that no header will arrive."""
        self._closing = Event()
        self._socket: socket.socket | None = None
        self._stitcher: Stitcher | None = None
        self._is_under_way = False
        self._heard = False
        self._thread = Thread(target=self._run, name="minivllm-events", daemon=True)
        self._thread.start()

    @property
    def _name(self) -> str:
        return f"{self._url.scheme}://{self._url.netloc.rpartition('@')[2]}{self._url.path}"

    def close(self) -> None:
        self._closing.set()
        if (connected := self._socket) is not None:
            with contextlib.suppress(OSError):  # the socket may be closed already
                connected.shutdown(socket.SHUT_RDWR)
        self._thread.join(timeout=1.0)

    # ---- in the thread ----

    def _run(self) -> None:
        delay = FIRST_DELAY
        while not self._closing.is_set():
            self._heard = False
            try:
                self._connect_and_read()
                why = "it closed the connection"
            except EventLogError as error:
                replaced = isinstance(error, AnotherRunError)
                self.status = SourceStatus(
                    "ended", f"{self._name}: {str(error).rstrip('.')}.", replaced
                )
                self.settled.set()
                return
            except (OSError, http.client.HTTPException, UnicodeError) as error:
                why = _reason(error)
            if self._heard:
                delay = FIRST_DELAY
            self.trouble = f"{self._name} is not available ({why})"
            text = f"{self.trouble}: trying again in {delay:g} s."
            self.status = SourceStatus("lost", text, retries=True)
            self._closing.wait(delay)
            delay = min(2 * delay, LAST_DELAY)

    def _connect_and_read(self) -> None:
        is_https = self._url.scheme == "https"
        kind = http.client.HTTPSConnection if is_https else http.client.HTTPConnection
        connection = kind(self._url.hostname or "", self._url.port, timeout=CONNECT_SECONDS)
        try:
            connection.connect()
            self._socket = connection.sock
            # An idle engine can be silent for hours; keep-alive detects that its machine is gone.
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            headers = {"Accept": "text/event-stream", "Cache-Control": "no-store"}
            key = os.environ.get(API_KEY, "")
            if key and key.isascii() and key.isprintable():
                headers["Authorization"] = f"Bearer {key}"
            if self._stitcher is not None and self._stitcher.last_seq is not None:
                headers["Last-Event-ID"] = str(self._stitcher.last_seq)
            query = f"?{self._url.query}" if self._url.query else ""
            connection.request("GET", self._url.path + query, headers=headers)
            response = connection.getresponse()
            self._check(response)
            self._socket.settimeout(None)
            self._read(response)
        finally:
            self._socket = None
            connection.close()

    def _check(self, response: http.client.HTTPResponse) -> None:
        if response.status in (429, 502, 503, 504):
            raise http.client.HTTPException(f"{response.status} {response.reason}")
        kind = response.getheader("Content-Type", "an unnamed type")
        if response.status == 401:
            raise EventLogError(f"it requires an API key: set the environment variable {API_KEY}.")
        if response.status == 404:
            raise EventLogError(
                "it does not publish events: start that server with `minivllm serve --events`, and"
                " `minivllm vllm-events` beside a vLLM."
            )
        if response.status != 200:
            raise EventLogError(
                f"it answers {response.status} {response.reason} instead of events; is this"
                " the address of a minivllm server?"
            )
        if kind.partition(";")[0].strip().lower() != "text/event-stream":
            raise EventLogError(
                f"it sends {kind} instead of events; is this the address of a minivllm server?"
            )

    def _read(self, response: http.client.HTTPResponse) -> None:
        parser, is_first = SseParser(), True
        while not self._closing.is_set() and (data := response.read1(READ_BYTES)):
            for message in parser.feed(data):
                if is_first:
                    self._begin(message)
                    is_first = False
                elif message.event == "state":
                    self._take_state(message.data)
                elif message.event == "message" and self._stitcher is not None:
                    self._is_under_way = True
                    self.lines.append(self._stitcher.take(message.data))
            while len(self.lines) > MAX_WAITING_LINES and not self._closing.wait(0.02):
                pass

    def _begin(self, message: SseMessage) -> None:
        if message.event != "meta":
            raise EventLogError(
                "its first message is not a header; is this the event stream of a minivllm server?"
            )
        header = decode_header("its event stream", message.data)
        if self._stitcher is None:
            self._stitcher = Stitcher(header)
            self.header = header
            self.lines.append(encode_header(header))
        else:
            self._stitcher.resume(header)
        self._heard = True
        self.status = SourceStatus("live")
        self.settled.set()

    def _take_state(self, state: bytes) -> None:
        # Only before the first event: a view that later loses events keeps its own state.
        if not self._is_under_way:
            self._is_under_way = True
            self.lines.append(state_line(state))


def _reason(error: Exception) -> str:
    if isinstance(error, TimeoutError):
        return "no answer in time"
    if isinstance(error, http.client.IncompleteRead):
        return "it closed the connection"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__
