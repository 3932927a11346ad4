"""`LogWriter`: writes a recording, which is a header line and then one event a line (JSON Lines).

A log is written to be read by strangers and after accidents: it can be searched with grep, a reader
skips kinds and fields that it does not know, and a torn last line (power cut, Ctrl-C, full disk)
simply ends it. The writer flushes at the end of every step, so a recording is whole up to the last
finished step whatever happens next. `recording.py` reads it, also while it grows.

The easy thing to get wrong is the second line. A recording that begins in the middle of a run says so in
its header, but only with the engine's state in its second line can anybody fold what follows.
"""

from pathlib import Path
from typing import BinaryIO

from minivllm.errors import EventLogError
from minivllm.events.lines import encode_event, encode_header, encode_state
from minivllm.events.state import EngineState
from minivllm.events.types import Event, Gap, LogHeader, StepEnd

BUFFER_BYTES = 1 << 16


class LogWriter:
    """Writes a recording; give `write` to `LLMEngine.subscribe`. Also a context manager.

    A full disk must not stop the engine: what cannot be written is counted, the file is cut back to its
    last whole line, and once there is room again a `Gap` says how many events are missing.
    """

    def __init__(
        self, path_or_file: str | Path | BinaryIO, header: LogHeader, state: EngineState | None = None
    ) -> None:
        """`path_or_file`: a path, or an empty unbuffered file, which others may read and seek in meanwhile.

        `state`: an `inspect()` from the moment of `header`, if the engine has done anything before. Raises
        `EventLogError` if the first lines cannot be written.
        """
        try:
            if isinstance(path_or_file, str | Path):
                # Unbuffered: our own buffer holds whole lines, so a failed write can be taken back whole.
                self._file = open(path_or_file, "wb", buffering=0)  # noqa: SIM115 - closed by close()
            else:
                self._file = path_or_file
            self._size = self._file.write(encode_header(header) + (encode_state(state) if state else b""))
        except OSError as error:
            raise EventLogError(f"{path_or_file} cannot be written: {error.strerror}.") from error
        self._buffer = bytearray()
        self._num_buffered = 0
        self._num_lost = 0
        self._last: Event | None = None

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
        if self._num_lost and last is not None:
            # Everything up to and with this buffer becomes one gap: half of it would not fold.
            self._num_lost += self._num_buffered
            data = encode_event(Gap(last.seq, last.step, last.t, self._num_lost))
        try:
            self._file.seek(self._size)
            written = self._file.write(data)
            if written < len(data):
                raise OSError("the disk is full")
            self._size += written
            self._num_lost = 0
        except OSError:
            self._num_lost = self._num_lost or self._num_buffered
            self._file.truncate(self._size)
        self._buffer.clear()
        self._num_buffered = 0

    def close(self) -> None:
        self.flush()
        self._file.close()

    def __enter__(self) -> "LogWriter":
        return self

    def __exit__(self, *exc_info: object) -> None:
        self.close()
