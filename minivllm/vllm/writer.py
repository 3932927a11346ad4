"""`Writer`: numbers the tap's records, adds texts, and writes the file, in a thread of its own.

A record is a tuple: the kind of event, its step, its time, and its own fields. Each list of records
is a whole call of the scheduler, so the file can be read while it grows, and it is valid if vLLM is
killed.
"""

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from itertools import groupby
from operator import itemgetter
from queue import SimpleQueue
from threading import Thread, current_thread
from typing import BinaryIO

from msgspec.structs import replace

from minivllm.errors import EventLogError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.events.recording.compact import StepDecodes, TokensSampled, expand
from minivllm.events.recording.log import LogWriter
from minivllm.events.state import EngineState
from minivllm.vllm.texts import Texts

Record = tuple
MOST_WAITING = 4096
"""Calls of the scheduler that wait to be written: some seconds on a fast GPU."""


class Writer:
    """Raises `EventLogError` if the file cannot be written, or if another engine writes it."""

    def __init__(
        self, path: str, header: ev.LogHeader, texts: Texts, limit: int, with_fold: bool
    ) -> None:
        """limit: at this size in bytes, a new file begins with the engine's state; 0: no limit"""
        self._path, self._header, self._texts, self._limit = path, header, texts, limit
        self.fold = Fold(header) if with_fold or limit else None
        self._next_seq = 0
        self._queue: SimpleQueue[list[Record] | None] = SimpleQueue()
        self._thread: Thread | None = None
        self._open(None)

    def _open(self, state: EngineState | None) -> None:
        """Begin a file. One that is there becomes `path.1`."""
        try:
            self._file = self._locked()
            if self._file.tell():
                os.replace(self._path, f"{self._path}.1")
                self._file.close()
                self._file = self._locked()
        except BlockingIOError as error:
            raise EventLogError(f"another engine writes {self._path}") from error
        except OSError as error:
            raise EventLogError(f"{self._path} cannot be written: {error.strerror}") from error
        self._log = LogWriter(self._file, self._header, state)

    def _locked(self) -> BinaryIO:
        file = open(self._path, "ab", buffering=0)  # noqa: SIM115 - closed by close() or _run()
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return file

    def take(self, records: list[Record]) -> None:
        """Write the records of a call of the scheduler."""
        for kind, step, t, *fields in _compact(records):
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
        self._thread = Thread(target=self._run, args=(fail,), name="minivllm-recorder", daemon=True)
        self._thread.start()

    def put(self, records: list[Record]) -> None:
        if self._queue.qsize() > MOST_WAITING:
            raise EventLogError("the disk is slower than the scheduler")
        self._queue.put(records)

    def close(self, seconds: float = 0.0) -> None:
        """Write what is left and close the file. Wait at most so long until that is done."""
        self._queue.put(None)
        if self._thread is None:
            self._file.close()
        elif current_thread() is not self._thread:
            self._thread.join(timeout=seconds)

    def _run(self, fail: Callable[[Exception], None]) -> None:
        try:
            while (records := self._queue.get()) is not None:
                self.take(records)
        except Exception as error:
            fail(error)
        self._file.close()


def _compact(records: list[Record]) -> Iterator[Record]:
    """Make one record of neighbouring decodes, and of neighbouring tokens."""
    for kind, group in groupby(records, key=itemgetter(0)):
        if kind not in (StepDecodes, TokensSampled):
            yield from group
            continue
        _, steps, times, *columns = zip(*group, strict=True)
        if kind is TokensSampled:
            *columns, logprobs, (of_step, *_) = columns
            logprobs = [] if logprobs.count(None) == len(logprobs) else list(logprobs)
            yield kind, steps[0], times[0], *map(list, columns), [], logprobs, of_step
        else:
            yield kind, steps[0], times[0], *map(list, columns)
