"""Where the dashboard's events come from: what a source is, how it reports, and how one is opened.

Every source keeps a *recording*: what came in is stored in a file and indexed bit by bit, so that
time travel is the same for a running engine, a server, a file that is being written and one that
is complete. A source never waits: the dashboard calls `poll` fifteen times a second and gets what
is there. Waiting for a first line is done before there is a dashboard.
"""

from typing import Literal, NamedTuple, Protocol

from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import V, ViewCodec
from minivllm.events.recording.recording import Recording

SourceState = Literal["live", "recording", "indexing", "lost", "ended"]
"""`live`: more may come. `recording`: all is here. `indexing`: there is more in the file than can
be shown yet.
`lost`: the connection is; it is tried again. `ended`: nothing will come any more, and the text says
why."""


class SourceStatus(NamedTuple):
    """What to say about a source, in the header of the dashboard."""

    state: SourceState
    text: str = ""
    """One short sentence, or nothing."""
    replaced: bool = False
    """`ended`, because another engine answers there now: whoever opens it again sees that one."""


def indexing(done: int, total: int) -> SourceStatus:
    """So many bytes of so many can be shown."""
    return SourceStatus("indexing", f"Reading the log: {100 * done // max(total, 1)} %.")


class EventSource(Protocol[V]):
    """What the dashboard needs of a stream of events."""

    recording: Recording[V]

    def poll(self, seconds: float) -> int:
        """Take in what has come, for at most about so long; the number of new events; never
        waits.
        """

    @property
    def status(self) -> SourceStatus:
        """How it stands, as of the last `poll`."""

    def close(self) -> None:
        """Give back files, connections and threads."""


def open_source(text: str, *, follow: bool, codec: ViewCodec[V] = FOLD) -> EventSource[V]:
    """The source that `text` names: an `http://` or `https://` address, or a file.

    `follow`: the file is still being written (`attach`), or is complete (`replay`). Raises
    `EventLogError`, in one sentence, for what cannot be opened.
    """
    # Here, because they import this file; and http.client takes longer to import than a small
    # recording to open.
    if text.lower().startswith(("http://", "https://")):
        from minivllm.tui.sources.http_source import HttpSource

        return HttpSource(text, codec=codec)
    if follow:
        from minivllm.tui.sources.tail import TailSource

        return TailSource(text, codec=codec)
    from minivllm.tui.sources.replay import ReplaySource

    return ReplaySource(text, codec=codec)
