"""The tables of docs/use/observability.md: the metrics of `GET /metrics`, from a metrics registry.

Names, types, labels and buckets do not depend on counts. The page describes the `process_*` metrics
of `prometheus_client`, which exist only on Linux.
"""

from page_text import code, prose, sentence, table
from prometheus_client.metrics_core import Metric

from minivllm.events.types import LogHeader
from minivllm.server.metrics.histograms import token_buckets
from minivllm.server.metrics.router import EngineMetrics

_HEADER = LogHeader(
    engine="0", model="MODEL", clock="virtual", wall=0.0, mono=0.0, num_blocks=1, block_size=16,
    max_num_seqs=1, max_num_batched_tokens=16, max_model_len=2048,
    scheduling_policy="fcfs", enable_prefix_caching=True,
    config={"speculative_config": {"num_speculative_tokens": 1}},
)  # fmt: skip


def tables_of_metrics() -> str:
    metrics = EngineMetrics(_HEADER)
    metrics.count_request({"path": "/v1/completions", "method": "POST"}, 200)
    families = [one for one in metrics.registry.collect() if not one.name.startswith("process_")]
    text = ""
    for kind, last in {"gauge": "Labels", "counter": "Labels", "histogram": "Buckets"}.items():
        rows = [_row(one) for one in families if one.type == kind]
        text += f"### {kind.title()}s\n\n{table(('Name', 'Meaning', last), rows)}\n"
    return text


def _row(family: Metric) -> tuple[str, str, str]:
    name = f"{family.name}_total" if family.type == "counter" else family.name
    names = dict.fromkeys(code(name) for one in family.samples for name in one.labels)
    last = ", ".join(names)
    if family.type == "histogram":
        bounds = [float(one.labels["le"]) for one in family.samples if "le" in one.labels][:-1]
        last = ", ".join(f"{bound:g}" for bound in bounds)
        if bounds == [*map(float, token_buckets(_HEADER.max_model_len))]:
            last = "1, 2, 5, 10, 20, 50 and so on, up to `max_model_len`"
    return code(name), prose(sentence(family.documentation)), last
