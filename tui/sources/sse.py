"""`SseParser`: splits a stream of server-sent events into messages.

A piece of the stream can end anywhere, even between the two bytes of a line end.

Source: the section "Server-sent events" of the HTML standard. But a lone carriage return does not
end a line, and only the fields `event` and `data` are read.
"""

from typing import NamedTuple

from minivllm.errors import EventLogError

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
