"""`Stitcher`: one gapless recording from a stream of lines that may break off and go on later.

After a break the other side sends again from where it can. What was had before is dropped, what is
missing becomes a `Gap`, and another run is refused: its numbers may look like a continuation and
are none. Knows lines and numbers, and nothing of connections.

The easy thing to get wrong is a gap that reaches back over events that did arrive: it counts too
many.
"""

import msgspec

from minivllm.errors import EventLogError
from minivllm.events.recording.lines import decode_envelope, decode_line, encode_event
from minivllm.events.types import Gap, LogHeader

_SAME_CLOCK_SECONDS = 5.0
"""Two headers of one run agree that well on when the engine's clock stood at zero."""


class AnotherRunError(EventLogError):
    """The other side is no continuation: it has its own events from the beginning."""


class Stitcher:
    """Give `resume` the header of each new connection, and `take` every event's line."""

    def __init__(self, header: LogHeader) -> None:
        self._header = header
        self._expected_seq = header.first_seq

    @property
    def last_seq(self) -> int | None:
        """Number of the last event that was taken or is told to be lost; None before the first."""
        return self._expected_seq - 1 if self._expected_seq > self._header.first_seq else None

    def resume(self, header: LogHeader) -> None:
        """Raises `AnotherRunError` if a new connection is to another run."""
        ours = self._header
        same = msgspec.structs.replace(
            header, first_seq=0, wall=0.0, mono=0.0
        ) == msgspec.structs.replace(ours, first_seq=0, wall=0.0, mono=0.0)
        if header.wall != ours.wall or header.mono != ours.mono:
            # Written anew for this connection. An engine that has started again counts from the
            # beginning.
            drift = (header.wall - header.mono) - (ours.wall - ours.mono)
            same = (
                same and abs(drift) < _SAME_CLOCK_SECONDS and header.first_seq >= self._expected_seq
            )
        if not same:
            raise AnotherRunError("another engine runs there now: attach again to see it")

    def take(self, line: bytes) -> bytes:
        """What to write for an event's line (given without its end): nothing, the line, or a gap
        before it.

        Raises `EventLogError` for what is no event.
        """
        try:
            envelope = decode_envelope(line)
            if envelope.seq < self._expected_seq:
                return b""
            num_missing = envelope.seq - self._expected_seq
            if num_missing:
                event = decode_line(line)[1]
                if isinstance(event, Gap):
                    line = encode_event(Gap(event.seq, event.step, event.t, num_missing + 1))[:-1]
                else:
                    gap = Gap(envelope.seq - 1, envelope.step, envelope.t, num_missing)
                    line = encode_event(gap) + line
        except msgspec.DecodeError as error:
            raise EventLogError(
                f"what came after event {self._expected_seq - 1} is no event: {error}"
            ) from error
        self._expected_seq = envelope.seq + 1
        return line + b"\n"
