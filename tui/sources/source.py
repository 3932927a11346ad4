"""Where the dashboard's events come from.

Every source keeps a *recording*: what came in lies in a file and is indexed bit by bit, so that time travel is the
same for a running engine, a server, a file that is being written and one that is complete. A source knows
nothing of screens. The easy thing to get wrong is to wait: the dashboard asks fifteen times a second, with
`poll`, and gets what is there; waiting for a first line is done before there is a dashboard.
"""

from typing import Protocol

from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import V, ViewCodec
from minivllm.events.recording.recording import Recording
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.sources.status import SourceState, SourceStatus
from minivllm.tui.sources.tail import TailSource

__all__ = [
    "EventSource",
    "InProcessSource",
    "ReplaySource",
    "SourceState",
    "SourceStatus",
    "TailSource",
    "open_source",
]


class EventSource(Protocol[V]):
    """What the dashboard needs of a stream of events."""

    recording: Recording[V]

    def poll(self, seconds: float) -> int:
        """Take in what has come, for at most about so long; the number of new events; never waits."""

    @property
    def status(self) -> SourceStatus:
        """How it stands, as of the last `poll`."""

    def close(self) -> None:
        """Give back files, connections and threads."""


def open_source(text: str, *, follow: bool, codec: ViewCodec[V] = FOLD) -> EventSource[V]:
    """The source that `text` names: an `http://` or `https://` address, or a file.

    `follow`: the file is still being written (`attach`), or is complete (`replay`). Raises `EventLogError`, in one
    sentence, for what cannot be opened.
    """
    if text.lower().startswith(("http://", "https://")):
        # Here, because http.client takes longer to import than a small recording to open.
        from minivllm.tui.sources.http_source import HttpSource

        return HttpSource(text, codec=codec)
    return TailSource(text, codec=codec) if follow else ReplaySource(text, codec=codec)
