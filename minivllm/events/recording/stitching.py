"""`Stitcher`: makes one recording from a stream of lines that may break off and resume.

    first connection     0 1 2 3 4
    second connection          3 4 5 6      events 3 and 4 are dropped
    or                               6 7    event 5 is missing: a `Gap` of one event before 6

Lines of another run are refused, even if their event numbers continue ours. A gap never covers an
event that has arrived.
"""

import msgspec

from minivllm.errors import EventLogError
from minivllm.events.recording.lines import decode_envelope, decode_line, encode_event
from minivllm.events.types import Gap, LogHeader

_SAME_CLOCK_SECONDS = 5.0
"""Two headers of one run may differ by this much in the Unix time at which the clock was zero."""


class AnotherRunError(EventLogError):
    """The server at the new connection has another run, with its own events."""


class Stitcher:
    """Call `resume` with the header of each new connection, and `take` with every event's line."""

    def __init__(self, header: LogHeader) -> None:
        self._header = header
        self._expected_seq = header.first_seq

    @property
    def last_seq(self) -> int | None:
        """Number of the last event that arrived or was counted as lost, or None."""
        return self._expected_seq - 1 if self._expected_seq > self._header.first_seq else None

    def resume(self, header: LogHeader) -> None:
        """Raise `AnotherRunError` if a new connection is to another run."""
        ours = self._header
        same = msgspec.structs.replace(
            header, first_seq=0, wall=0.0, mono=0.0
        ) == msgspec.structs.replace(ours, first_seq=0, wall=0.0, mono=0.0)
        if header.wall != ours.wall or header.mono != ours.mono:
            # The header is new. A restarted engine would number its events from 0 again.
            drift = (header.wall - header.mono) - (ours.wall - ours.mono)
            same = (
                same and abs(drift) < _SAME_CLOCK_SECONDS and header.first_seq >= self._expected_seq
            )
        if not same:
            raise AnotherRunError("the server runs another engine now: attach again to watch it")

    def take(self, line: bytes) -> bytes:
        """Return the bytes to write for an event's line, which is given without its newline.

        No bytes if the event has arrived before; a gap before the line if events are missing.
        Raises `EventLogError` if the line is not an event.
        """
        try:
            envelope = decode_envelope(line)
            if envelope.seq < self._expected_seq:
                return b""
            num_missing = envelope.seq - self._expected_seq
            if num_missing:
                event = next(iter(decode_line(line)[1]), None)
                if isinstance(event, Gap):
                    line = encode_event(Gap(event.seq, event.step, event.t, num_missing + 1))[:-1]
                else:
                    gap = Gap(envelope.seq - 1, envelope.step, envelope.t, num_missing)
                    line = encode_event(gap) + line
        except msgspec.DecodeError as error:
            raise EventLogError(
                f"the data after event {self._expected_seq - 1} is not an event: {error}"
            ) from error
        self._expected_seq = envelope.seq + 1
        return line + b"\n"
