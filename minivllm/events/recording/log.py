"""`LogWriter`: writes a recording: a header line, then one line for each event (JSON Lines).

Readers skip unknown kinds and fields. An incomplete last line (power cut, Ctrl-C, full disk) simply
ends the log. The writer flushes at the end of every step, and `recording.py` can read the file
while it grows.

If any event is missing in the file, `loss` says so during the run, and `close` raises
`EventLogError`.

If a recording starts in the middle of a run, its second line has the engine's state, from which a
fold of the events starts.
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
    num_events: int
    step: int
    """The first incomplete step."""
    reason: str
    """The system's message, such as "No space left on device"."""


class LogWriter:
    """Writes a recording: pass `write` to `LLMEngine.subscribe`. Also a context manager.

    A full disk does not stop the engine. The file is cut back to its last whole line, and when
    there is room again, a `Gap` records how many events are missing.
    """

    def __init__(
        self,
        path_or_file: str | Path | BinaryIO,
        header: LogHeader,
        state: EngineState | None = None,
    ) -> None:
        """Write the header, and `state` if there is one.

        path_or_file: a path, or an empty unbuffered file; other code may read and seek in the file
        state:        what `inspect()` returned when `header` was made, if the engine has run before

        Raises `EventLogError` if the file cannot be written.
        """
        self._path = Path(path_or_file) if isinstance(path_or_file, str | Path) else None
        self._name = str(path_or_file)
        self._size = 0
        try:
            # Unbuffered: our own buffer has only whole lines, so a failed write can be undone
            # completely.
            self._file = (
                open(self._path, "wb", buffering=0) if self._path else path_or_file  # noqa: SIM115
            )
            self._append(encode_header(header) + (encode_state(state) if state else b""))
            self._file.seek(self._size)  # for a pipe, this fails now and not later
        except OSError as error:
            raise EventLogError(f"{self._name} cannot be written: {error.strerror}.") from error
        self._buffer = bytearray()
        self._num_buffered = 0
        self._num_lost = 0
        self._last: Event | None = None
        self.last_step = 0
        """The file is complete up to this step. Any thread may read the attribute."""
        self.loss: Loss | None = None
        """Which events could not be written so far. Any thread may read the attribute."""
        self.is_whole = False
        """Whether the file was closed and is complete."""

    def write(self, event: Event) -> None:
        """Append one event, which is in the file when its step has ended."""
        self._buffer += encode_event(event)
        self._num_buffered += 1
        self._last = event
        if type(event) is StepEnd or len(self._buffer) > BUFFER_BYTES:
            self._write_out()

    def flush(self) -> None:
        """Write all buffered events, even in the middle of a step."""
        if self._buffer:
            self._write_out()

    @property
    def num_lost(self) -> int:
        """How many events were lost since the last `Gap` in the file."""
        return self._num_lost

    def _write_out(self) -> None:
        last, data = self._last, bytes(self._buffer)
        num_lost = self._num_lost + self._num_buffered
        in_gap, reason = self._num_lost > 0, ""
        if in_gap and last is not None:
            # One gap for the lost events and this buffer: a fold could not use events after a gap.
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
        """Append all of `data`. If that fails, leave the file unchanged and raise `OSError`."""
        try:
            self._file.seek(self._size) if self._size else None
            written = self._file.write(data)
            if written < len(data):
                # On a full disk, the first write is cut without an error; the next one raises the
                # reason.
                written += self._file.write(data[written:])
            if written < len(data):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            # If `truncate` fails too, the incomplete line stays and ends the recording for readers.
            with suppress(OSError):
                self._file.truncate(self._size)
            raise
        self._size += len(data)

    def close(self) -> None:
        """Write all buffered events. Raise `EventLogError` if the file is incomplete."""
        self.flush()
        try:
            is_ours = self._path is None or self._is_ours(self._path)
            self._file.close()
        except OSError as error:
            raise EventLogError(
                f"{self._name} may be incomplete at its end: {error.strerror}."
            ) from error
        if not is_ours:
            raise EventLogError(
                f"{self._name} was removed or changed while it was being written: the recording is"
                " lost."
            )
        if self.loss is not None:
            num_events, step, reason = self.loss
            raise EventLogError(
                f"{self._name} lacks {num_events:,} events from step {step} on ({reason}): it is"
                f" complete up to step {self.last_step}."
            )
        self.is_whole = True

    def _is_ours(self, path: Path) -> bool:
        """Whether `path` still names the file that was written, and the file has its full size."""
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
            error.add_note(str(lost))  # keep the first error as the main one
