"""`EngineMetrics`: `/metrics` for Prometheus, under vLLM's names.

Names, types, labels and buckets are those of vLLM V1, so that vLLM's Grafana board and other tools
work unchanged. `engine_totals` defines each number. `apply` runs in the engine's thread and only
adds numbers; the scraping thread makes the text. A lock, held for microseconds, keeps a scrape from
seeing half of an event.

Source: vLLM `vllm/v1/metrics/loggers.py`.
"""

from collections.abc import Iterator
from threading import Lock

from fastapi import APIRouter, Response
from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, generate_latest
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from minivllm.errors import MinivllmError
from minivllm.events import types as ev
from minivllm.server.errors import ERROR_RESPONSES
from minivllm.server.metrics.engine_totals import APPLY, EngineTotals

ENGINE = "0"
"""vLLM numbers its engines because it can have several."""

_HELP = {
    "num_requests_running": "Sequences in the batch.",
    "num_requests_waiting": "Sequences in the waiting queue.",
    "kv_cache_usage_perc": "Fraction of KV-cache blocks in use, from 0 to 1.",
    "engine_sleep_state": "1 for awake, 0 for all other states: this engine never sleeps.",
    "prefix_cache_queries": "Tokens looked up in the prefix cache.",
    "prefix_cache_hits": "Tokens found in the prefix cache.",
    "num_preemptions": "Preemptions of sequences.",
    "prompt_tokens": "Prompt tokens of requests that got their first token, cached ones included.",
    "prompt_tokens_cached": "Prompt tokens found in the prefix cache.",
    "generation_tokens": "Sampled tokens.",
    "spec_decode_num_drafts": "How often drafts of a sequence were verified.",
    "spec_decode_num_draft_tokens": "Drafted tokens.",
    "spec_decode_num_accepted_tokens": "Drafted tokens that were accepted.",
    "spec_decode_num_accepted_tokens_per_pos": (
        "How often the draft at this position was accepted, from 0."
    ),
    "request_success": "Finished sequences, by reason.",
    "iteration_tokens_total": "Tokens computed in a step.",
    "request_prompt_tokens": "Prompt tokens of a request.",
    "request_generation_tokens": "Output tokens of a sequence.",
    "request_max_num_generation_tokens": "Output tokens of a request's longest sequence.",
    "request_params_n": "Parameter n of a request.",
    "request_params_max_tokens": "Parameter max_tokens of a request.",
    "time_to_first_token_seconds": "Time from a request's arrival to its first token.",
    "inter_token_latency_seconds": "Time between two steps in which a sequence got tokens.",
    "request_time_per_output_token_seconds": "Mean time between the tokens of a sequence.",
    "e2e_request_latency_seconds": "Time from a request's arrival to its end.",
    "request_queue_time_seconds": "Time from a request's arrival to its first batch slot.",
    "request_inference_time_seconds": "Time from the first batch slot to the last token.",
    "request_prefill_time_seconds": "Time from the first batch slot to the first token.",
    "request_decode_time_seconds": "Time from the first token to the last.",
    "request_num_preemptions": "Preemptions of one sequence.",
    "request_prefill_kv_computed_tokens": "Prompt tokens that were not in the prefix cache.",
}


_RESPONSES = {**ERROR_RESPONSES, 200: {"content": {"text/plain": {}}}}


class EngineMetrics(Collector):
    """Call `engine.subscribe(metrics.apply)` before the first request: the counts start at zero, so
    the engine must have no requests yet.
    """

    def __init__(self, header: ev.LogHeader, model_name: str | None = None) -> None:
        """model_name: value of the label `model_name`; default: the model's name in `header`"""
        self._labels = {
            "model_name": header.model if model_name is None else model_name,
            "engine": ENGINE,
        }
        self._header = header
        self._totals = EngineTotals(header)
        self._lock = Lock()
        self._why_closed: MinivllmError | None = None
        self.registry = CollectorRegistry()
        """Other collectors can register here too; `text` prints all of them."""
        self.registry.register(self)

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
        """Return all metrics in Prometheus' text format. After `close`, raise the error.

        Any thread may call it.
        """
        if self._why_closed is not None:
            raise self._why_closed
        return generate_latest(self.registry)

    def collect(self) -> Iterator[Metric]:
        with self._lock:
            totals = self._totals
            gauges = {
                "num_requests_running": totals.ledger.num_running,
                "num_requests_waiting": len(totals.ledger.sequences) - totals.ledger.num_running,
                "kv_cache_usage_perc": totals.num_used_blocks / totals.num_blocks,
            }
            counters, ended = dict(totals.counters), dict(totals.request_success)
            accepted = list(totals.accepted_per_position)
            histograms = {
                name: histogram.snapshot() for name, histogram in totals.histograms.items()
            }
        names, values = list(self._labels), list(self._labels.values())
        for name, value in gauges.items():
            yield _with(GaugeMetricFamily(f"vllm:{name}", _HELP[name], labels=names), values, value)
        for name, value in counters.items():
            yield _with(
                CounterMetricFamily(f"vllm:{name}", _HELP[name], labels=names), values, value
            )
        success = CounterMetricFamily(
            "vllm:request_success", _HELP["request_success"], labels=[*names, "finished_reason"]
        )
        for reason, value in ended.items():
            success.add_metric([*values, reason], value)
        yield success
        if accepted:
            name = "spec_decode_num_accepted_tokens_per_pos"
            family = CounterMetricFamily(f"vllm:{name}", _HELP[name], labels=[*names, "position"])
            for position, value in enumerate(accepted):
                family.add_metric([*values, str(position)], value)
            yield family
        for name, snapshot in histograms.items():
            family = HistogramMetricFamily(f"vllm:{name}", _HELP[name], labels=names)
            family.add_metric(values, snapshot.buckets(), snapshot.sum)
            yield family
        # vLLM's server can put its engine to sleep; ours is always awake.
        sleep = GaugeMetricFamily(
            "vllm:engine_sleep_state", _HELP["engine_sleep_state"], labels=[*names, "sleep_state"]
        )
        for state in ("awake", "weights_offloaded", "discard_all"):
            sleep.add_metric([*values, state], state == "awake")
        yield sleep
        yield self._cache_config()

    def _cache_config(self) -> Metric:
        """The options of the KV cache, as labels of a gauge that is always 1."""
        header = self._header
        options = {
            "engine": ENGINE,
            "block_size": header.block_size,
            "num_gpu_blocks": header.num_blocks,
            "enable_prefix_caching": header.enable_prefix_caching,
            "cache_dtype": header.kv_cache_dtype or header.config.get("dtype", "auto"),
        }
        family = GaugeMetricFamily(
            "vllm:cache_config_info", "Options of the KV cache.", labels=list(options)
        )
        return _with(family, [str(value) for value in options.values()], 1)


def _with(family: Metric, labels: list[str], value: float) -> Metric:
    family.add_metric(labels, value)
    return family


def router(metrics: EngineMetrics) -> APIRouter:
    routes = APIRouter()

    @routes.get("/metrics", response_class=Response, responses=_RESPONSES)
    def scrape() -> Response:
        """Counters, gauges and histograms of the engine, for Prometheus."""
        return Response(metrics.text(), media_type=CONTENT_TYPE_LATEST)

    return routes
