"""The tables of docs/use/observability.md: the metrics of `GET /metrics`, from a metrics registry.

The registry has counted only one HTTP request, which is enough: names, types, labels and buckets do
not depend on counts. The `process_*` metrics of `prometheus_client` exist only on Linux, so a fixed
text describes them.
"""

from collections.abc import Iterable, Mapping
from types import MappingProxyType

from page_text import ROOT, code, prose, sentence, source_link, table
from prometheus_client.metrics_core import Metric

from minivllm.events.types import LogHeader
from minivllm.lessons.site.markdown import with_region
from minivllm.server.metrics.histograms import token_buckets
from minivllm.server.metrics.router import EngineMetrics

_MAX_MODEL_LEN = 2048
PAGE = ROOT / "docs/use/observability.md"
_HEADER = LogHeader(
    engine="0", model="MODEL", clock="virtual", wall=0.0, mono=0.0, num_blocks=1, block_size=16,
    max_num_seqs=1, max_num_batched_tokens=16, max_model_len=_MAX_MODEL_LEN,
    scheduling_policy="fcfs", enable_prefix_caching=True,
    config={"speculative_config": {"num_speculative_tokens": 1}},
)  # fmt: skip
LABELS: Mapping[str, str] = MappingProxyType(
    {
        "model_name": ("Model name that clients use: `--served-model-name`, or else `--model`."),
        "engine": "Always `0`: there is only one engine. vLLM numbers engines because it can have"
        " several.",
        "finished_reason": (
            "Why a sequence ended: `stop`, `length`, `abort`, or `error` if it failed."
        ),
        "position": "Position of a draft among those of its sequence and step, from `0`.",
        "sleep_state": "`awake`, `weights_offloaded` or `discard_all`; only `awake` occurs.",
        "block_size": "The option with this name.",
        "num_gpu_blocks": "Blocks of the KV cache, on any device.",
        "enable_prefix_caching": "The option with this name: `True` or `False`.",
        "cache_dtype": "The option `dtype`.",
        "handler": ("The requested route, as defined in the server; `none` for an unknown path."),
        "status": "The class of the HTTP status: `2xx`, `4xx`, `5xx`.",
        "method": "The HTTP method; `other` for a nonstandard method.",
    }
)


def page() -> str:
    """docs/use/observability.md: all but the tables of metrics is written by hand."""
    return with_region(PAGE.read_text(encoding="utf-8"), "metrics", tables_of_metrics())


def tables_of_metrics() -> str:
    metrics = EngineMetrics(_HEADER)
    metrics.count_request({"path": "/v1/completions", "method": "POST"}, 200)
    families = [one for one in metrics.registry.collect() if not one.name.startswith("process_")]
    text = f"""
The source is {source_link("minivllm.server.metrics.router")}; \
{source_link("minivllm.server.metrics.engine_totals:EngineTotals")} does the counting.

"""
    for kind, title in (("gauge", "Gauges"), ("counter", "Counters")):
        rows = (
            (_name(one), _meaning(one), _labels_of(one)) for one in families if one.type == kind
        )
        text += f"### {title}\n\n" + table(("Name", "Meaning", "Labels"), rows) + "\n"
    histograms = [one for one in families if one.type == "histogram"]
    (labels,) = {_labels_of(one) for one in histograms}  # all histograms have the same labels
    text += f"### Histograms\n\nAll have the labels {labels}. Times are in seconds.\n\n"
    text += (
        table(
            ("Name", "Meaning", "Buckets"),
            ((_name(one), _meaning(one), _buckets(one)) for one in histograms),
        )
        + "\n"
    )
    text += "### Labels\n\n" + table(("Label", "Meaning"), _labels(families)) + "\n"
    return text + _TAIL


_TAIL = """### The process

On Linux `prometheus_client` adds metrics of the process: \
`process_cpu_seconds_total`, `process_resident_memory_bytes`, `process_virtual_memory_bytes`,
`process_start_time_seconds`, `process_open_fds` and `process_max_fds`, without labels.
"""


def _name(family: Metric) -> str:
    return code(f"{family.name}_total" if family.type == "counter" else family.name)


def _meaning(family: Metric) -> str:
    return prose(sentence(family.documentation))


def _labels_of(family: Metric) -> str:
    return ", ".join(map(code, _names_of_labels(family)))


def _names_of_labels(family: Metric) -> list[str]:
    return list(
        dict.fromkeys(name for sample in family.samples for name in sample.labels if name != "le")
    )


def _labels(families: Iterable[Metric]) -> Iterable[tuple[str, str]]:
    for name in dict.fromkeys(name for family in families for name in _names_of_labels(family)):
        yield code(name), prose(LABELS[name])


def _buckets(family: Metric) -> str:
    bounds = [
        float(one.labels["le"]) for one in family.samples if one.labels.get("le", "+Inf") != "+Inf"
    ]
    if bounds == [float(one) for one in token_buckets(_MAX_MODEL_LEN)]:
        return "1, 2, 5, 10, 20, 50 and so on, up to `max_model_len`"
    return ", ".join(f"{bound:g}" for bound in bounds)
