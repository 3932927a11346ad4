"""`LogReader`: reads a log once, from the first line to the last, one event at a time.

To seek, use `recording.Recording` instead. Events of unknown kinds are skipped. An incomplete last
line ends the log. The stream also ends at a damaged line in the middle, without an error, because
the events before are valid; `damage` says where and why.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from minivllm.errors import EventLogError
from minivllm.events.recording.lines import decode_header, decode_line, decode_state
from minivllm.events.types import Event, Gap, LogHeader


class LogReader:
    """An iterable over the events, for one use. Raises `EventLogError` if `path` is not a log."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            # Closed after the last line, or by close().
            self._file = open(path, "rb")  # noqa: SIM115
            first = self._file.readline()
        except OSError as error:
            raise EventLogError(f"{path} cannot be read: {error.strerror}.") from error
        try:
            if not first.endswith(b"\n"):
                raise EventLogError(f"{path} has no header line: it is empty or incomplete.")
            self.header: LogHeader = decode_header(str(self.path), first)
        except EventLogError:
            self._file.close()
            raise
        self.damage: str | None = None
        """Where and why the log is damaged. Set when the stream ends at a damaged line."""

    def __iter__(self) -> Iterator[Event]:
        expected_seq = self.header.first_seq
        with self._file:
            for number, line in enumerate(self._file, start=2):
                if not line.endswith(b"\n"):
                    return  # an incomplete line: the log ends before this line
                try:
                    if number == 2 and decode_state(line) is not None:
                        continue  # the log starts in the middle of a run
                    seq, events = decode_line(line)
                except msgspec.DecodeError as error:
                    # The last whole line may be incomplete, too. Only an earlier line is damage.
                    if self._file.readline().endswith(b"\n"):
                        self.damage = f"{self.path} is damaged at line {number}: {error}."
                    return
                first_seq = seq + 1 - events[0].lost if events and type(events[0]) is Gap else seq
                if first_seq != expected_seq:
                    self.damage = (
                        f"{self.path} is damaged at line {number}: expected event {expected_seq},"
                        f" found event {seq}."
                    )
                    return
                expected_seq = seq + max(len(events), 1)
                yield from events

    def close(self) -> None:
        """Close the file before its end has been read."""
        self._file.close()
