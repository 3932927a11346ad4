"""`EngineMetrics`: `/metrics` for Prometheus, under vLLM's names.

Names, types, labels and buckets are those of vLLM V1, so that vLLM's Grafana board and other tools
work unchanged. `engine_totals` defines each number. `apply` runs in the engine's thread and only
adds numbers; the scraping thread makes the text. A lock keeps a scrape from seeing half of an
event.

Source: vLLM `vllm/v1/metrics/loggers.py`.
"""

from collections.abc import Iterator
from threading import Lock

from prometheus_client import (
    CONTENT_TYPE_LATEST,
    CollectorRegistry,
    Counter,
    ProcessCollector,
    generate_latest,
)
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Scope

from minivllm.errors import MinivllmError
from minivllm.events import types as ev
from minivllm.server.metrics.engine_totals import APPLY, COUNTERS, SPEC_DECODE, EngineTotals
from minivllm.server.metrics.histograms import HISTOGRAMS

_NOT_COUNTED = frozenset({"/metrics", "/health", "/version"})
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class EngineMetrics(Collector):
    """Call `engine.subscribe(metrics.apply)` before the first request: the counts start at zero, so
    the engine must have no requests yet.
    """

    def __init__(self, header: ev.LogHeader, model_name: str | None = None) -> None:
        """model_name: value of the label `model_name`; default: the model's name in `header`"""
        # vLLM numbers its engines because it can have several.
        self._labels = {"model_name": model_name or header.model, "engine": "0"}
        self._header = header
        self._totals = EngineTotals(header)
        self._lock = Lock()
        self._why_closed: MinivllmError | None = None
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "http_requests_total",
            "HTTP requests by route, status class and method.",
            ("handler", "status", "method"),
            registry=self.registry,
        )

    def count_request(self, scope: Scope, status: int) -> None:
        """Count an HTTP request that has ended, if it is not from a monitoring tool.

        Labels come from short fixed lists, because every new value is kept for ever, and clients
        can send any path and method.
        """
        if scope["path"] in _NOT_COUNTED:
            return
        endpoint = scope.get("endpoint")
        routes = scope["app"].routes if endpoint is not None else ()
        handler = next((route.path for route in routes if route.endpoint is endpoint), "none")
        method = scope["method"] if scope["method"] in _METHODS else "other"
        self._requests.labels(handler, f"{status // 100}xx", method).inc()

    def apply(self, event: ev.Event) -> None:
        """Called in the engine's thread."""
        count = APPLY.get(type(event))
        if count is not None:
            with self._lock:
                count(self._totals, event)

    def close(self, why: MinivllmError) -> None:
        """From now on, answer scrapes with the error `why`: an event was lost, and numbers that
        stay constant would look like an idle engine.
        """
        self._why_closed = why

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format, in any thread. After `close`, raise."""
        if self._why_closed is not None:
            raise self._why_closed
        return generate_latest(self.registry)

    def collect(self) -> list[Metric]:
        with self._lock:
            return list(self._families())

    def _families(self) -> Iterator[Metric]:
        totals, running = self._totals, self._totals.ledger.num_running
        gauge, counter = GaugeMetricFamily, CounterMetricFamily
        for name, meaning, value in (
            ("num_requests_running", "Sequences in the batch.", running),
            ("num_requests_waiting", "Sequences in the waiting queue.",
             len(totals.ledger.sequences) - running),
            ("kv_cache_usage_perc", "Fraction of KV-cache blocks in use, from 0 to 1.",
             totals.num_used_blocks / totals.num_blocks),
        ):  # fmt: skip
            yield self._family(gauge, name, meaning, {"": value})
        for name, value in totals.counters.items():
            yield self._family(counter, name, (COUNTERS | SPEC_DECODE)[name], {"": value})
        name, meaning = "request_success", "Finished sequences, by reason."
        yield self._family(counter, name, meaning, totals.request_success, "finished_reason")
        if totals.accepted_per_position:
            name = "spec_decode_num_accepted_tokens_per_pos"
            meaning = "How often the draft at this position was accepted, from 0."
            accepted = {str(i): number for i, number in enumerate(totals.accepted_per_position)}
            yield self._family(counter, name, meaning, accepted, "position")
        for name, histogram in totals.histograms.items():
            family = self._family(HistogramMetricFamily, name, HISTOGRAMS[name][0], {})
            family.add_metric(list(self._labels.values()), histogram.cumulative(), histogram.sum)
            yield family
        # vLLM's server can put its engine to sleep; ours is always awake.
        asleep = {"awake": 1, "weights_offloaded": 0, "discard_all": 0}
        meaning = "1 for awake, 0 for all other states: this engine never sleeps."
        yield self._family(gauge, "engine_sleep_state", meaning, asleep, "sleep_state")
        header = self._header
        options = {  # a gauge that is always 1, with the options as its labels
            "engine": self._labels["engine"],
            "block_size": header.block_size,
            "num_gpu_blocks": header.num_blocks,
            "enable_prefix_caching": header.enable_prefix_caching,
            "cache_dtype": header.kv_cache_dtype or header.config.get("dtype", "auto"),
        }
        family = gauge("vllm:cache_config_info", "Options of the KV cache.", labels=list(options))
        family.add_metric([str(value) for value in options.values()], 1)
        yield family

    def _family(
        self, kind: type[Metric], name: str, meaning: str, values: dict[str, float], *label: str
    ) -> Metric:
        """label: a further label, if any; values: by its value, or under "" """
        family = kind(f"vllm:{name}", meaning, labels=[*self._labels, *label])
        for further, value in values.items():
            family.add_metric([*self._labels.values(), *[further] * len(label)], value)
        return family


def routes(metrics: EngineMetrics) -> list[Route]:
    def scrape(request: Request) -> Response:
        """Counters, gauges and histograms of the engine, for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return [Route("/metrics", scrape)]
