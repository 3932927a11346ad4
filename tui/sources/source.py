"""Event sources: the interface, the status, and how to open one.

Every source keeps a *recording*: it stores events in a file and indexes them in small portions. So
time travel works the same for a running engine, a server, a growing file and a complete one. `poll`
never waits; only opening a source can wait, for its first line.
"""

from typing import Literal, NamedTuple, Protocol

from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import V, ViewCodec
from minivllm.events.recording.recording import Recording

SourceState = Literal["live", "recording", "indexing", "lost", "ended"]
"""`live`: more may come. `recording`: complete. `indexing`: not all of it is read yet.

`lost`: the connection is lost and is retried. `ended`: nothing more comes; the text says why.
"""


class SourceStatus(NamedTuple):
    state: SourceState
    text: str = ""
    """A short sentence, or empty."""
    replaced: bool = False
    """With `ended`: another engine answers at the address now; reopening shows that one."""


def indexing(done: int, total: int) -> SourceStatus:
    """The status while a file is being indexed, from numbers of bytes."""
    return SourceStatus("indexing", f"Reading the log: {100 * done // max(total, 1)} %.")


class EventSource(Protocol[V]):
    recording: Recording[V]

    def poll(self, seconds: float) -> int:
        """Take in new events for about `seconds` at most, without waiting; return their number."""

    @property
    def status(self) -> SourceStatus:
        """The status as of the last `poll`."""

    def close(self) -> None:
        """Close files, connections and threads."""


def open_source(text: str, *, follow: bool, codec: ViewCodec[V] = FOLD) -> EventSource[V]:
    """Open the source that `text` names: an `http://` or `https://` address, or a file.

    follow: the file is still being written (`attach`), or is complete (`replay`)
    Raises `EventLogError` with one sentence if that fails.
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
