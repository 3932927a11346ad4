"""`InProcessSource`: the events of an engine in this process.

`put` runs in the engine's thread, between two decisions of the scheduler. So it only appends to a
deque: it takes no lock, wakes no thread and can never block. `poll` runs in the dashboard's thread
and writes the events to an unnamed temporary file, from which the view reads.
"""

import tempfile
import time
from collections import deque
from collections.abc import Iterable
from typing import Generic

from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import V, ViewCodec
from minivllm.events.recording.log import LogWriter
from minivllm.events.recording.recording import Recording
from minivllm.events.state import EngineState
from minivllm.events.types import Event, LogHeader
from minivllm.tui.sources.source import SourceStatus

BATCH_EVENTS = 500
"""Events between two looks at the clock: a millisecond of work, so `poll` ends in time."""


class InProcessSource(Generic[V]):
    """Call `engine.log_header()` and subscribe `put` at the same moment."""

    def __init__(
        self,
        header: LogHeader,
        events: Iterable[Event] = (),
        *,
        codec: ViewCodec[V] = FOLD,
        state: EngineState | None = None,
    ) -> None:
        """state: `engine.inspect()` at the header's moment, if the engine has already run"""
        self._events: deque[Event] = deque(events)
        # In CPython, `append` and `popleft` are atomic, so two threads can share the deque.
        self.put = self._events.append
        """Take in one event. Any thread may call this."""
        self._file = tempfile.TemporaryFile(buffering=0)  # noqa: SIM115 - closed by close()
        self._writer = LogWriter(self._file, header, state)
        self.recording: Recording[V] = Recording(self._file, codec, index=False, name="This run")

    def poll(self, seconds: float) -> int:
        count, deadline, pop = 0, time.monotonic() + seconds, self._events.popleft
        while True:
            batch = min(len(self._events), BATCH_EVENTS)
            for _ in range(batch):
                self._writer.write(pop())
            self._writer.flush()
            num_new = self.recording.index_more(0)
            count += num_new
            if (batch == 0 and num_new == 0) or time.monotonic() >= deadline:
                return count

    @property
    def status(self) -> SourceStatus:
        if self.recording.damage is not None:
            return SourceStatus("ended", self.recording.damage)
        if self._writer.num_lost:
            lost = f"{self._writer.num_lost:,} are missing"
            return SourceStatus("lost", f"The events cannot be stored: {lost}.")
        return SourceStatus("live")

    def close(self) -> None:
        self._file.close()
