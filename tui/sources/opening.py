"""`open_source`: a source for what a command was given: an address, or a file."""

from minivllm import tui
from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import V, ViewCodec
from minivllm.tui.sources.replay import ReplaySource
from minivllm.tui.sources.source import EventSource
from minivllm.tui.sources.tail import TailSource


def open_source(text: str, *, follow: bool, codec: ViewCodec[V] = FOLD) -> EventSource[V]:
    """Open an `http://` or `https://` address, or a file.

    follow: whether the file is still being written (`attach`) or complete (`replay`)
    Raises `EventLogError` with one sentence if the source cannot be opened.
    """
    if text.lower().startswith(("http://", "https://")):
        return tui.HttpSource(text, codec=codec)
    if follow:
        return TailSource(text, codec=codec)
    return ReplaySource(text, codec=codec)
