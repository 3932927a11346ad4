"""`VllmSource`: metrics and optional KV events of a running vLLM, for `attach --vllm`."""

from minivllm.tui.sources.source import SourceStatus
from minivllm.tui.vllm.kv import KVEventReader
from minivllm.tui.vllm.metrics import MetricsReader
from minivllm.tui.vllm.vllm_view import VllmView


class VllmSource:
    """
    url: the server's address
    kv_events: the address of its KV events, such as tcp://localhost:5557
    """

    def __init__(self, url: str, kv_events: str | None = None) -> None:
        """Raises `EventLogError` or `ConfigError` for an invalid address."""
        self.url = url
        self.view = VllmView()
        self._metrics = MetricsReader(url)
        try:
            self._kv_events = None if kv_events is None else KVEventReader(kv_events)
        except BaseException:
            self._metrics.close()
            raise

    def poll(self) -> bool:
        """Take in new scrapes and batches without waiting; return whether there were any."""
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
        return self._metrics.status

    @property
    def kv_status(self) -> SourceStatus | None:
        """None if KV events were not requested."""
        return None if self._kv_events is None else self._kv_events.status

    def close(self) -> None:
        self._metrics.close()
        if self._kv_events is not None:
            self._kv_events.close()
