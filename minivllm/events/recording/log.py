"""`LogWriter`: writes a recording, which is a header line and then one event a line (JSON Lines).

A log is written to be read by strangers and after accidents: it can be searched with grep, a reader
skips kinds and fields that it does not know, and a torn last line (power cut, Ctrl-C, full disk)
simply ends it. The writer flushes at the end of every step, so a recording is whole up to the last
finished step whatever happens next. `recording.py` reads it, also while it grows.

Never take a written line for granted: `loss` says during the run what the file lacks, and `close`
raises `EventLogError` unless all of it is there, so that no caller can report a recording that does
not exist.

The easy thing to get wrong is the second line. A recording that begins in the middle of a run says
so in its header, but only with the engine's state in its second line can anybody fold what follows.
"""

import errno
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, NamedTuple

from minivllm.errors import EventLogError
from minivllm.events.recording.lines import encode_event, encode_header, encode_state
from minivllm.events.state import EngineState
from minivllm.events.types import Event, Gap, LogHeader, StepEnd

BUFFER_BYTES = 1 << 16


class Loss(NamedTuple):
    """What a recording lacks."""

    num_events: int
    step: int
    """The first that is not whole."""
    reason: str
    """The system's, as in "No space left on device"."""


class LogWriter:
    """Writes a recording; give `write` to `LLMEngine.subscribe`. Also a context manager, which
    closes it.

    A full disk must not stop the engine: what cannot be written is counted, the file is cut back to
    its last whole line, and once there is room again a `Gap` says how many events are missing.
    """

    def __init__(
        self,
        path_or_file: str | Path | BinaryIO,
        header: LogHeader,
        state: EngineState | None = None,
    ) -> None:
        """`path_or_file`: a path, or an empty unbuffered file, which others may read and seek in
        meanwhile.

        `state`: an `inspect()` from the moment of `header`, if the engine has done anything before.
        Raises `EventLogError` if the first lines cannot be written.
        """
        self._path = Path(path_or_file) if isinstance(path_or_file, str | Path) else None
        self._name = str(path_or_file)
        self._size = 0
        try:
            # Unbuffered: our own buffer holds whole lines, so a failed write can be taken back
            # whole.
            self._file = (
                open(self._path, "wb", buffering=0) if self._path else path_or_file  # noqa: SIM115
            )
            self._append(encode_header(header) + (encode_state(state) if state else b""))
            self._file.seek(self._size)  # not possible in a pipe: say so now
        except OSError as error:
            raise EventLogError(f"{self._name} cannot be written: {error.strerror}.") from error
        self._buffer = bytearray()
        self._num_buffered = 0
        self._num_lost = 0
        self._last: Event | None = None
        self.last_step = 0
        """The last step up to which the file has everything; from any thread."""
        self.loss: Loss | None = None
        """Everything that could not be written so far; from any thread."""
        self.is_whole = False
        """Whether the file was closed and has everything."""

    def write(self, event: Event) -> None:
        """Append one event; it is in the file when its step has ended."""
        self._buffer += encode_event(event)
        self._num_buffered += 1
        self._last = event
        if type(event) is StepEnd or len(self._buffer) > BUFFER_BYTES:
            self._write_out()

    def flush(self) -> None:
        """Write out what there is, also in the middle of a step."""
        if self._buffer:
            self._write_out()

    @property
    def num_lost(self) -> int:
        """Events that could not be written, and that no `Gap` in the file tells of yet."""
        return self._num_lost

    def _write_out(self) -> None:
        last, data = self._last, bytes(self._buffer)
        num_lost = self._num_lost + self._num_buffered
        in_gap, reason = self._num_lost > 0, ""
        if in_gap and last is not None:
            # Everything up to and with this buffer becomes one gap: half of it would not fold.
            data = encode_event(Gap(last.seq, last.step, last.t, num_lost))
        try:
            self._append(data)
            self._num_lost = 0
        except OSError as error:
            self._num_lost, reason = num_lost, error.strerror or str(error)
        if in_gap or reason:
            before = self.loss or Loss(0, last.step, reason)
            self.loss = before._replace(num_events=before.num_events + self._num_buffered)
        elif self.loss is None and type(last) is StepEnd:
            self.last_step = last.step
        self._buffer.clear()
        self._num_buffered = 0

    def _append(self, data: bytes) -> None:
        """Write all of `data` at the end; raises `OSError` with the file as before."""
        try:
            self._file.seek(self._size) if self._size else None
            written = self._file.write(data)
            if written < len(data):
                # A disk that fills up takes a part and says nothing; asked again, it says why.
                written += self._file.write(data[written:])
            if written < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            with suppress(OSError):  # the torn line then stays, and ends the recording for a reader
                self._file.truncate(self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Write out the rest. Raises `EventLogError` if the file lacks anything: how much, and from
        which step on.
        """
        self.flush()
        try:
            is_ours = self._path is None or self._is_ours(self._path)
            self._file.close()
        except OSError as error:
            raise EventLogError(f"{self._name} may lack its end: {error.strerror}.") from error
        if not is_ours:
            raise EventLogError(
                f"{self._name} was removed or changed while it was written: this recording is lost."
            )
        if self.loss is not None:
            num_events, step, reason = self.loss
            raise EventLogError(
                f"{self._name} lacks {num_events:,} events, from step {step} on ({reason}): it is"
                f" whole up to step {self.last_step}."
            )
        self.is_whole = True

    def _is_ours(self, path: Path) -> bool:
        """Whether `path` still names the file that was written, with all that was written."""
        written = os.fstat(self._file.fileno())
        try:
            return os.path.samestat(written, path.stat()) and (
                written.st_size == self._size or not stat.S_ISREG(written.st_mode)
            )
        except OSError:
            return False

    def __enter__(self) -> "LogWriter":
        return self

    def __exit__(self, exc_type: object, error: BaseException | None, traceback: object) -> None:
        try:
            self.close()
        except EventLogError as lost:
            if error is None:
                raise
            error.add_note(str(lost))  # what went wrong first is said first
