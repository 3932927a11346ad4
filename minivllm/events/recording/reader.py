"""`LogReader`: a log read once, from its first line to its last, one event at a time.

For whoever wants every event and no way back: an export, the state at the end.
`recording.Recording` can seek and keeps an index for that; this keeps one line. Unknown kinds are
passed over and a torn last line ends the log, as there.

The easy thing to get wrong is a line that is damaged in the middle of a log. What stands before it
is good and may be an hour of work to read, so it does not raise: the stream ends, and `damage` says
where and why.
"""

from collections.abc import Iterator
from pathlib import Path

import msgspec

from minivllm.errors import EventLogError
from minivllm.events.recording.lines import decode_header, decode_line, decode_state
from minivllm.events.types import Event, Gap, LogHeader


class LogReader:
    """Iterate over it once. A file that cannot be opened, or is no log of ours, raises at once."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            # It is closed when the last line is read, or by close().
            self._file = open(path, "rb")  # noqa: SIM115
            first = self._file.readline()
        except OSError as error:
            raise EventLogError(f"{path} cannot be read: {error.strerror}.") from error
        try:
            if not first.endswith(b"\n"):
                raise EventLogError(
                    f"{path} has no header line: it is empty or was cut off before it began."
                )
            self.header: LogHeader = decode_header(str(self.path), first)
        except EventLogError:
            self._file.close()
            raise
        self.damage: str | None = None
        """One sentence, once the stream has ended at a damaged line."""

    def __iter__(self) -> Iterator[Event]:
        expected_seq = self.header.first_seq
        with self._file:
            for number, line in enumerate(self._file, start=2):
                if not line.endswith(b"\n"):
                    return  # torn while it was written: the log ends before it
                try:
                    if number == 2 and decode_state(line) is not None:
                        continue  # it begins in the middle of a run
                    seq, event = decode_line(line)
                except msgspec.DecodeError as error:
                    # not the last whole line, which may be torn as well
                    if self._file.readline().endswith(b"\n"):
                        self.damage = f"{self.path} is damaged at line {number}: {error}."
                    return
                first_seq = seq + 1 - event.lost if isinstance(event, Gap) else seq
                if first_seq != expected_seq:
                    self.damage = (
                        f"{self.path} is damaged at line {number}: event {expected_seq} should"
                        f" stand there, not {seq}."
                    )
                    return
                expected_seq = seq + 1
                if event is not None:
                    yield event

    def close(self) -> None:
        """Read no further."""
        self._file.close()
