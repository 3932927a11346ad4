"""Event sources: the interface, the status, and how to open one.

Every source has a *recording*: it stores events in a file and indexes them in small portions. So
time travel works the same for a running engine, a server, a growing file and a complete file.
Opening a source can wait for the first line; `poll` never waits.
"""

from typing import Literal, NamedTuple, Protocol

from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import V, ViewCodec
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


def open_source(text: str, *, follow: bool, codec: ViewCodec[V] = FOLD) -> EventSource[V]:
    """Open an `http://` or `https://` address, or a file.

    follow: whether the file is still being written (`attach`) or complete (`replay`)
    Raises `EventLogError` with one sentence if the source cannot be opened.
    """
    # Import late: these modules import this one, and http.client is slow to import.
    if text.lower().startswith(("http://", "https://")):
        from minivllm.tui.sources.http_source import HttpSource

        return HttpSource(text, codec=codec)
    if follow:
        from minivllm.tui.sources.tail import TailSource

        return TailSource(text, codec=codec)
    from minivllm.tui.sources.replay import ReplaySource

    return ReplaySource(text, codec=codec)
