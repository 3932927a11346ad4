"""`TailSource`: a log that is still being written.

The log is copied into a spool and read from there, so what was shown once can be shown again even
if the file changes. If the file is truncated or replaced, reading stops, because the new lines
belong to another run.
"""

import os
import time
from pathlib import Path
from typing import BinaryIO

from minivllm.errors import EventLogError
from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import ViewCodec
from minivllm.events.recording.recording import Recording
from minivllm.tui.sources.source import SourceStatus, indexing
from minivllm.tui.sources.spool import Spool

WAIT_SECONDS = 5.0
"""How long to wait for the file and its header line: the writer may have just started."""
COPY_BYTES = 1 << 17


class TailSource:
    """Raises `EventLogError` if no valid header arrives in time."""

    def __init__(
        self, path: str | Path, *, codec: ViewCodec = FOLD, wait: float = WAIT_SECONDS
    ) -> None:
        self._path = Path(path)
        self._spool = Spool()
        self._size = 0
        self._caught_up = False
        self._trouble: str | None = None
        self._replaced = False
        deadline = time.monotonic() + wait
        self._file = self._open(deadline)
        try:
            self.recording: Recording = self._read_header(codec, deadline)
        except EventLogError:
            self.close()
            raise

    def _open(self, deadline: float) -> BinaryIO:
        while True:
            try:
                return open(self._path, "rb", buffering=0)
            except FileNotFoundError as error:
                if time.monotonic() >= deadline:
                    raise EventLogError(
                        f"{self._path} does not exist: check the path, or start the program"
                        " that writes it."
                    ) from error
            except OSError as error:
                raise EventLogError(f"{self._path} cannot be read: {error.strerror}.") from error
            time.sleep(0.02)

    def _read_header(self, codec: ViewCodec, deadline: float) -> Recording:
        while True:
            data = self._copy()
            if b"\n" in data or time.monotonic() >= deadline:
                return Recording(self._spool.file, codec, index=False, name=str(self._path))
            time.sleep(0.02)

    def poll(self, seconds: float) -> int:
        count, deadline = 0, time.monotonic() + seconds
        while self._trouble is None:
            copied, num_new = self._copy(), self.recording.index_more(0)
            count += num_new
            self._caught_up = not copied and num_new == 0
            if self._caught_up:
                self._look_for_trouble()
                break
            if time.monotonic() >= deadline:
                break
        return count

    def _copy(self) -> bytes:
        """Copy the next piece of the file to the spool and return it; empty at the file's end."""
        try:
            self._size = os.fstat(self._file.fileno()).st_size
            self._file.seek(self._spool.size)
            data = self._file.read(COPY_BYTES)
            self._spool.write(data)
        except EventLogError as error:
            self._trouble = str(error)
            return b""
        except OSError as error:
            self._trouble = f"{self._path} can no longer be read: {error.strerror}."
            return b""
        return data

    def _look_for_trouble(self) -> None:
        try:
            now, ours = self._path.stat(), os.fstat(self._file.fileno())
        except FileNotFoundError:
            self._trouble = f"{self._path} was removed, so no more events will come."
        except OSError as error:
            self._trouble = f"{self._path} can no longer be read: {error.strerror}."
        else:
            changed = "truncated while it was read" if self._size < self._spool.size else ""
            if changed or not os.path.samestat(now, ours):
                self._replaced = not changed
                changed = changed or "replaced by another file"
                self._trouble = f"{self._path} was {changed}: attach again to see its content."

    @property
    def status(self) -> SourceStatus:
        trouble = self.recording.damage or self._trouble
        if trouble is not None:
            return SourceStatus("ended", trouble, self._replaced)
        if not self._caught_up:
            return indexing(self.recording.indexed_bytes, self._size)
        return SourceStatus("live")

    def close(self) -> None:
        self._file.close()
        self._spool.close()
