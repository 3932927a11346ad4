"""`MetricsReader`: a thread that reads a vLLM server's `/metrics` every second.

`vllm_view` interprets the numbers. Versions of vLLM have different metrics: a missing metric is
None, never 0, and is drawn as unknown.
"""

import contextlib
import http.client
import time
from collections import defaultdict, deque
from dataclasses import dataclass, field
from threading import Event, Thread
from urllib.parse import urlsplit

from minivllm.errors import ConfigError, EventLogError
from minivllm.tui.sources.api_key import VARIABLE, authorization
from minivllm.tui.sources.source import SourceStatus

SECONDS_BETWEEN = 1.0
ANSWER_SECONDS = 5.0
MOST_BYTES = 1 << 24
PREFIX = "vllm:"


@dataclass(slots=True)
class Scrape:
    """A server's metrics at one moment. The names are without the prefix `vllm:`."""

    t: float
    """The time of the scrape, on our own clock."""
    values: dict[str, float] = field(default_factory=dict)
    """Gauges, counters (`..._total`), and `_sum` and `_count` of histograms, summed over labels."""
    buckets: dict[str, dict[float, float]] = field(default_factory=dict)
    """Histogram -> boundary -> number of values up to this boundary."""
    kv_cache_usage: dict[str, float] = field(default_factory=dict)
    """Usage by engine, as a share."""
    cache_config: dict[str, str] = field(default_factory=dict)
    models: tuple[str, ...] = ()


def parse_scrape(text: str, t: float) -> Scrape:
    """Raises `EventLogError` for another format, or without metrics of vLLM."""
    try:
        from prometheus_client.parser import text_string_to_metric_families
    except ImportError as error:
        raise ConfigError(
            "To read metrics, install what they need: pip install 'minivllm[serve]'."
        ) from error
    scrape = Scrape(t)
    values, models = defaultdict(float), set()
    try:
        for family in text_string_to_metric_families(text):
            for sample in family.samples if family.name.startswith(PREFIX) else ():
                name = sample.name.removeprefix(PREFIX)
                if name == "cache_config_info":
                    scrape.cache_config = dict(sample.labels)
                elif name.endswith("_bucket"):
                    bounds = scrape.buckets.setdefault(
                        name.removesuffix("_bucket"), defaultdict(float)
                    )
                    bounds[float(sample.labels["le"])] += sample.value
                else:
                    values[name] += sample.value
                    if name == "kv_cache_usage_perc":
                        scrape.kv_cache_usage[sample.labels.get("engine", "0")] = sample.value
                if "model_name" in sample.labels:
                    models.add(sample.labels["model_name"])
    except (ValueError, KeyError, IndexError, AttributeError) as error:
        raise EventLogError(
            "its answer is not in the metrics format; is this the address of a vLLM server?"
        ) from error
    if not values:
        raise EventLogError(
            "none of its metrics are from vLLM; is this the address of a vLLM server?"
        )
    scrape.values, scrape.models = dict(values), tuple(sorted(models))
    return scrape


class MetricsReader:
    """Pop from `scrapes`, oldest first."""

    def __init__(self, url: str) -> None:
        """url: the address of a server or its metrics. Raises `EventLogError` if it is invalid."""
        parts = urlsplit(url)
        try:
            is_address = (
                parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
            )
        except ValueError:
            is_address = False
        if not is_address:
            raise EventLogError(
                f"{url} is not the address of a server: write it like http://localhost:8000."
            )
        self._parts = parts
        self._path = "/metrics" if parts.path in ("", "/") else parts.path
        self._name = f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{self._path}"
        self.scrapes: deque[Scrape] = deque(maxlen=60)
        self.status = SourceStatus("lost", f"Asking {self._name}.")
        self._closing = Event()
        self._thread = Thread(target=self._run, name="minivllm-vllm-metrics", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._closing.set()
        self._thread.join(timeout=1.0)

    # ---- in the thread ----

    def _run(self) -> None:
        while not self._closing.is_set():
            started = time.monotonic()
            try:
                self.scrapes.append(parse_scrape(self._ask(), started))
                self.status = SourceStatus("live")
            except (EventLogError, ConfigError) as error:
                self.status = SourceStatus("lost", f"{self._name}: {error}")
            except (OSError, http.client.HTTPException) as error:
                why = (
                    "no answer in time"
                    if isinstance(error, TimeoutError)
                    else str(error) or type(error).__name__
                )
                self.status = SourceStatus("lost", f"{self._name} is not available ({why}).")
            self._closing.wait(max(0.0, started + SECONDS_BETWEEN - time.monotonic()))

    def _ask(self) -> str:
        kind = (
            http.client.HTTPSConnection
            if self._parts.scheme == "https"
            else http.client.HTTPConnection
        )
        with contextlib.closing(
            kind(self._parts.hostname, self._parts.port, timeout=ANSWER_SECONDS)
        ) as connection:
            connection.request(
                "GET", self._path, headers={"Accept": "text/plain", **authorization()}
            )
            answer = connection.getresponse()
            if answer.status == 401:
                raise EventLogError(
                    f"it requires an API key: set the environment variable {VARIABLE}."
                )
            if answer.status != 200:
                raise EventLogError(
                    f"it answers {answer.status} {answer.reason} instead of metrics."
                )
            data = answer.read(MOST_BYTES + 1)
        if len(data) > MOST_BYTES:
            raise EventLogError("its metrics are too long to be vLLM's.")
        return data.decode(errors="replace")
