"""`ReplaySource`: a complete log, read in place and shown while it is being indexed.

If the log is damaged in the middle, it is shown up to the damage, and the status gives the reason.
"""

from pathlib import Path
from typing import Generic

from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import V, ViewCodec
from minivllm.events.recording.recording import Recording
from minivllm.tui.sources.source import SourceStatus, indexing


class ReplaySource(Generic[V]):
    """Raises `EventLogError` if the file is not a recording."""

    def __init__(self, path: str | Path, *, codec: ViewCodec[V] = FOLD) -> None:
        self.recording: Recording[V] = Recording(path, codec, index=False)
        self._caught_up = False

    def poll(self, seconds: float) -> int:
        if self._caught_up:
            return 0
        count = self.recording.index_more(seconds)
        self._caught_up = count == 0
        return count

    @property
    def status(self) -> SourceStatus:
        if self.recording.damage is not None:
            return SourceStatus("recording", self.recording.damage)
        if not self._caught_up:
            return indexing(self.recording.indexed_bytes, self.recording.size)
        return SourceStatus("recording")

    def close(self) -> None:
        self.recording.close()
