"""`VllmSource`: what a running vLLM reports, for `attach --vllm`: metrics, and KV events if it
publishes them.

Two threads bring it in; `poll` moves it into the view and never waits, as with the sources of our
own events.
"""

from minivllm.tui.sources.source import SourceStatus
from minivllm.tui.vllm.kv import KVEventReader
from minivllm.tui.vllm.metrics import MetricsReader
from minivllm.tui.vllm.vllm_view import VllmView


class VllmSource:
    """`url` of the server; `kv_events`: where its publisher listens, such as
    tcp://localhost:5557.
    """

    def __init__(self, url: str, kv_events: str | None = None) -> None:
        """Raises `EventLogError` or `ConfigError` for an address that is none."""
        self.url = url
        self.view = VllmView()
        self._metrics = MetricsReader(url)
        try:
            self._kv_events = None if kv_events is None else KVEventReader(kv_events)
        except BaseException:
            self._metrics.close()
            raise

    def poll(self) -> bool:
        """Take in what has come; whether anything has."""
        scrapes = self._metrics.scrapes
        batches = () if self._kv_events is None else self._kv_events.batches
        num_scrapes, num_batches = len(scrapes), len(batches)
        for _ in range(num_scrapes):
            self.view.take_scrape(scrapes.popleft())
        for _ in range(num_batches):
            self.view.take_batch(batches.popleft())
        return bool(num_scrapes or num_batches)

    @property
    def status(self) -> SourceStatus:
        """Of the metrics."""
        return self._metrics.status

    @property
    def kv_status(self) -> SourceStatus | None:
        """Of the KV events; None if nobody asked for them."""
        return None if self._kv_events is None else self._kv_events.status

    def close(self) -> None:
        self._metrics.close()
        if self._kv_events is not None:
            self._kv_events.close()
