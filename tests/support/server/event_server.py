"""A small event server on loopback. A test scripts its answers and breaks connections."""

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.events.types import Event, LogHeader


def sse(data: bytes, *, event: str | None = None, id: int | None = None) -> bytes:
    head = (f"event: {event}\n" if event else "") + (f"id: {id}\n" if id is not None else "")
    return head.encode() + b"data: " + data.rstrip(b"\n") + b"\n\n"


def meta(header: LogHeader) -> bytes:
    return sse(encode_header(header), event="meta")


def messages(events: list[Event]) -> bytes:
    return b"".join(sse(encode_event(event), id=event.seq) for event in events)


@dataclass
class Answer:
    """The answer to one connection; `hold` keeps it open until the server ends."""

    body: bytes
    hold: bool = False
    status: int = 200
    kind: str = "text/event-stream; charset=utf-8"


@dataclass
class EventServer:
    """Sends `answers` to one connection after the other, then 503."""

    answers: list[Answer]
    url: str = ""
    last_event_ids: list[str | None] = field(default_factory=list)
    """The Last-Event-ID header of each connection."""
    ending: threading.Event = field(default_factory=threading.Event)

    def handle(self, handler: BaseHTTPRequestHandler) -> None:
        self.last_event_ids.append(handler.headers["Last-Event-ID"])
        answer = self.answers.pop(0) if self.answers else Answer(b"", status=503, kind="text/plain")
        handler.send_response(answer.status)
        handler.send_header("Content-Type", answer.kind)
        handler.end_headers()
        # In odd-sized pieces, as on a network.
        for start in range(0, len(answer.body), 1009):
            handler.wfile.write(answer.body[start : start + 1009])
        if answer.hold:
            self.ending.wait()


@contextmanager
def serving(*answers: Answer) -> Iterator[EventServer]:
    server = EventServer(list(answers))

    methods = {"do_GET": lambda asked: server.handle(asked), "log_message": lambda *said: None}
    handler = type("Handler", (BaseHTTPRequestHandler,), methods)
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as listener:
        server.url = f"http://127.0.0.1:{listener.server_port}"
        thread = threading.Thread(target=listener.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.ending.set()
            listener.shutdown()
            thread.join()
