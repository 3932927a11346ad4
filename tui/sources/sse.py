"""`SseParser`: messages out of a stream of server-sent events.

Only what carries data: comments and the field `retry` are passed over. A piece of the stream may
end anywhere, also in the middle of a line end.

Source: the section "Server-sent events" of the HTML standard; a lone carriage return as a line end
is left out.
"""

from typing import NamedTuple

from minivllm.errors import EventLogError

MAX_MESSAGE_BYTES = 1 << 26
"""More than any state or event has; a server that never ends a message is not ours."""


class SseMessage(NamedTuple):
    """One message."""

    event: str
    """Its kind; `message` where the server names none."""
    data: bytes


class SseParser:
    """Feed it bytes as they come."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[SseMessage]:
        """The messages that are complete with these bytes. Raises `EventLogError` for one that
        never ends.
        """
        *blocks, self._rest = (self._rest + data).replace(b"\r\n", b"\n").split(b"\n\n")
        if len(self._rest) > MAX_MESSAGE_BYTES:
            raise EventLogError("it sends a message without an end")
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
