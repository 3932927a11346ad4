"""Event sources: the interface, the status, and how to open one.

Every source has a *recording*: it stores events in a file and indexes them in small portions. So
time travel works the same for a running engine, a server, a growing file and a complete file.
Opening a source can wait for the first line; `poll` never waits.
"""

from typing import Literal, NamedTuple, Protocol

from minivllm.events.recording.keyframes import V
from minivllm.events.recording.recording import Recording

SourceState = Literal["live", "recording", "indexing", "lost", "ended"]
"""`live`: more events may come. `recording`: a complete recording. `indexing`: a complete recording
that is not fully read yet. `lost`: the connection is lost; the source reconnects if it can.
`ended`: no more events will come; the status text gives the reason.
"""


class SourceStatus(NamedTuple):
    state: SourceState
    text: str = ""
    replaced: bool = False
    """Only with `ended`: a new engine answers at the address. Reopen the source to show it."""
    retries: bool = False
    """Only with `lost`: the source goes on trying to connect."""


def indexing(done: int, total: int) -> SourceStatus:
    """done, total: numbers of bytes"""
    return SourceStatus("indexing", f"Reading the log: {100 * done // max(total, 1)} %.")


class EventSource(Protocol[V]):
    recording: Recording[V]

    def poll(self, seconds: float) -> int:
        """Take in new events for at most about `seconds`, without waiting. Return their number."""

    @property
    def status(self) -> SourceStatus:
        """The status as of the last `poll`."""

    def close(self) -> None: ...
