"""The tables of docs/use/observability.md: the metrics of `GET /metrics`, from a metrics registry.

The registry has counted only one HTTP request, which is enough: names, types, labels and buckets do
not depend on counts. The page describes the `process_*` metrics of `prometheus_client`, which exist
only on Linux.
"""

from page_text import code, prose, sentence, table
from prometheus_client.metrics_core import Metric

from minivllm.events.types import LogHeader
from minivllm.server.metrics.histograms import token_buckets
from minivllm.server.metrics.router import EngineMetrics

_MAX_MODEL_LEN = 2048
_HEADER = LogHeader(
    engine="0", model="MODEL", clock="virtual", wall=0.0, mono=0.0, num_blocks=1, block_size=16,
    max_num_seqs=1, max_num_batched_tokens=16, max_model_len=_MAX_MODEL_LEN,
    scheduling_policy="fcfs", enable_prefix_caching=True,
    config={"speculative_config": {"num_speculative_tokens": 1}},
)  # fmt: skip


def tables_of_metrics() -> str:
    metrics = EngineMetrics(_HEADER)
    metrics.count_request({"path": "/v1/completions", "method": "POST"}, 200)
    families = [one for one in metrics.registry.collect() if not one.name.startswith("process_")]
    text = ""
    for kind, last, show in (
        ("gauge", "Labels", _labels), ("counter", "Labels", _labels),
        ("histogram", "Buckets", _buckets),
    ):  # fmt: skip
        rows = (
            (_name(one), prose(sentence(one.documentation)), show(one))
            for one in families
            if one.type == kind
        )
        text += f"### {kind.title()}s\n\n{table(('Name', 'Meaning', last), rows)}\n"
    return text


def _name(family: Metric) -> str:
    return code(f"{family.name}_total" if family.type == "counter" else family.name)


def _labels(family: Metric) -> str:
    return ", ".join(dict.fromkeys(code(name) for one in family.samples for name in one.labels))


def _buckets(family: Metric) -> str:
    bounds = [one.labels["le"] for one in family.samples if one.labels.get("le", "+Inf") != "+Inf"]
    numbers = [float(bound) for bound in bounds]
    if numbers == [float(one) for one in token_buckets(_MAX_MODEL_LEN)]:
        return "1, 2, 5, 10, 20, 50 and so on, up to `max_model_len`"
    return ", ".join(f"{number:g}" for number in numbers)
