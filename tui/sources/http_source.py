"""`HttpSource`: the events of a server, kept in a spool file.

An `EventStream` reads lines in its own thread; `poll`, which never waits, moves them to the spool
and indexes them. The constructor waits for the header.
"""

import time
from urllib.parse import SplitResult, urlsplit

from minivllm.errors import EventLogError
from minivllm.events.recording.fold_codec import FOLD
from minivllm.events.recording.keyframes import ViewCodec
from minivllm.events.recording.recording import Recording
from minivllm.tui.sources.event_stream import EventStream
from minivllm.tui.sources.source import SourceStatus
from minivllm.tui.sources.spool import Spool

WAIT_SECONDS = 5.0
BATCH_LINES = 500


class HttpSource:
    """url: the address of the server or of its event stream.

    Raises `EventLogError` if no event stream answers in time.
    """

    def __init__(self, url: str, *, codec: ViewCodec = FOLD, wait: float = WAIT_SECONDS) -> None:
        self._spool = Spool()
        self._trouble: str | None = None
        self._stream = EventStream(_events_url(url))
        self._stream.settled.wait(wait)
        try:
            if self._stream.header is None:
                status = self._stream.status
                raise EventLogError(
                    status.text if status.state == "ended" else f"{self._stream.trouble}."
                )
            self._spool.write(self._stream.lines.popleft())
            self.recording: Recording = Recording(self._spool.file, codec, index=False, name=url)
        except EventLogError:
            self.close()
            raise

    def poll(self, seconds: float) -> int:
        count, deadline, lines = 0, time.monotonic() + seconds, self._stream.lines
        while self._trouble is None:
            batch = min(len(lines), BATCH_LINES)
            try:
                self._spool.write(b"".join([lines.popleft() for _ in range(batch)]))
            except EventLogError as error:
                self._trouble = str(error)
                self._stream.close()
            num_new = self.recording.index_more(0)
            count += num_new
            if (batch == 0 and num_new == 0) or time.monotonic() >= deadline:
                break
        return count

    @property
    def status(self) -> SourceStatus:
        trouble = self.recording.damage or self._trouble
        return SourceStatus("ended", trouble) if trouble else self._stream.status

    def close(self) -> None:
        self._stream.close()
        self._spool.close()


def _events_url(text: str) -> SplitResult:
    url = urlsplit(text)
    try:
        named = bool(url.hostname) and url.port != 0  # `port` raises ValueError if not a number
    except ValueError:
        named = False
    if not named:
        raise EventLogError(
            f"{text} is not the address of a server: write it like http://localhost:8000."
        )
    return url._replace(path="/events") if url.path in ("", "/") else url
