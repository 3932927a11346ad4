"""`Writer`: numbers the tap's records, adds texts, and writes the file, in a thread of its own.

A record is a tuple: the kind of event, its step, its time, and its own fields. Each list of records
is a whole call of the scheduler, so the file can be read while it grows, and it is valid if vLLM is
killed.
"""

import fcntl
import os
import time
from collections import deque
from collections.abc import Callable
from threading import Event, Thread

from msgspec.structs import replace

from minivllm.errors import EventLogError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.recording.compact import expand
from minivllm.events.recording.log import LogWriter
from minivllm.events.state import EngineState
from minivllm.vllm.texts import Texts

MOST_WAITING = 4096  # calls of the scheduler: some seconds on a fast GPU
_PAUSE = 0.02  # seconds: to wake a thread costs more than the hooks of a small step


class Writer:
    """Raises `EventLogError` if the file cannot be written, or if another engine writes it."""

    at_once = False  # whether `put` wants the records of every call, even if there are none

    def __init__(self, path: str, header: ev.LogHeader, texts: Texts, limit: int = 0) -> None:
        """limit: at this size in bytes, a new file begins with the engine's state; 0: no limit"""
        self._path, self._header, self._texts, self._limit = path, header, texts, limit
        self.fold = Fold(header) if limit or self.at_once else None
        self._next_seq, self._ends, self._closed = 0, Event(), Event()
        self._queue: deque[list[tuple]] = deque()
        self._open(None)

    def _open(self, state: EngineState | None) -> None:
        """Begin a file. One that is there becomes `path.1`."""
        try:
            while True:
                self._file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - see `_run`
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                if not self._file.tell():
                    break
                os.replace(self._path, f"{self._path}.1")
                self._file.close()
        except BlockingIOError as error:
            raise EventLogError(f"another engine writes {self._path}") from error
        except OSError as error:
            raise EventLogError(f"{self._path} cannot be written: {error.strerror}") from error
        self._log = LogWriter(self._file, self._header, state)

    def take(self, records: list[tuple]) -> None:
        """Write the records of a call of the scheduler."""
        event = None
        for kind, step, t, *fields in records:
            for made, *own in self._texts.events(kind, *fields):
                event = made(self._next_seq, step, t, *own)
                self._next_seq += len(event.seq_ids) if hasattr(event, "seq_ids") else 1
                self._log.write(event)
                for plain in expand([event]) if self.fold is not None else ():
                    self.fold.apply(plain)
        self._log.flush()
        if self._log.loss is not None:
            raise EventLogError(f"{self._path} cannot be written: {self._log.loss.reason}")
        if self._limit and type(event) is ev.StepEnd and self._file.tell() > self._limit:
            self._file.close()
            now = {"wall": time.time(), "mono": time.monotonic(), "first_seq": self._next_seq}
            self._header = replace(self._header, **now)
            self._open(self.fold.state)

    # ---- the thread ----

    def start(self, fail: Callable[[Exception], None]) -> None:
        """Start a thread that writes what `put` gets. It calls `fail` when it cannot go on."""
        Thread(target=self._run, args=(fail,), name="minivllm-recorder", daemon=True).start()

    def put(self, records: list[tuple]) -> None:
        if len(self._queue) > MOST_WAITING:
            raise EventLogError("the disk is slower than the scheduler")
        self._queue.append(records)

    def close(self, seconds: float = 0.0) -> None:
        """Let the thread write what is left. Wait at most so long until that is done."""
        self._ends.set()
        self._closed.wait(seconds)

    def _run(self, fail: Callable[[Exception], None]) -> None:
        try:
            while not self._ends.wait(_PAUSE) or self._queue:
                while self._queue:
                    self.take(self._queue.popleft())
                if not os.path.exists(self._path):
                    raise EventLogError(f"{self._path} was removed")
        except Exception as error:
            fail(error)
        self._file.close()
        self._closed.set()
