"""`SourceStatus`: how it stands with a source, for the header of the dashboard."""

from typing import Literal, NamedTuple

SourceState = Literal["live", "recording", "indexing", "lost", "ended"]
"""`live`: more may come. `recording`: all is here. `indexing`: there is more in the file than can be shown yet.
`lost`: the connection is; it is tried again. `ended`: nothing will come any more, and the text says why."""


class SourceStatus(NamedTuple):
    """What to say about a source."""

    state: SourceState
    text: str = ""
    """One short sentence, or nothing."""
    replaced: bool = False
    """`ended`, because another engine answers there now: whoever opens it again sees that one."""


def indexing(done: int, total: int) -> SourceStatus:
    """So many bytes of so many can be shown."""
    return SourceStatus("indexing", f"Reading the log: {100 * done // max(total, 1)} %.")
