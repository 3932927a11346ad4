"""The results of a simulation, from the times of its requests and the samples of its steps.

Names and definitions are those of `vllm bench serve`: TTFT, TPOT (a mean per request, without the
first token), ITL (all gaps between tokens) and E2EL. Goodput is the number of requests per second
that meet every target. Percentiles interpolate like numpy's, except those of the gaps, which have
few distinct values. KV use, running and waiting requests are means over time.
"""

import math
import statistics
from array import array
from collections.abc import Mapping
from collections.abc import Sequence as Seq
from operator import attrgetter
from pathlib import Path

import numpy as np

from minivllm.errors import ConfigError
from minivllm.lab.plot import Curves, plot
from minivllm.lab.simulate.replica import SERIES, Replica
from minivllm.lab.simulate.step_times import Fit

NUM_MOMENTS = 400
"""Points of a curve over time: a picture of a million steps would take a hundred megabytes."""
PERCENTILES = (50.0, 90.0, 99.0, 99.9)
GOODPUT_METRICS = ("ttft", "tpot", "e2el")
Answer = dict[str, object]


def parse_goodput(pairs: Seq[str], fit: Fit) -> dict[str, float]:
    """Parse targets in milliseconds like `ttft:500 tpot:50`, as in `vllm bench serve --goodput`.

    Raises `ConfigError` if a target is shorter than the time of a step with one token.
    """
    quickest = fit.model(max_tokens=1).seconds(1, 0, 0) * 1000
    targets: dict[str, float] = {}
    for pair in pairs:
        name, _, number = pair.partition(":")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if name not in GOODPUT_METRICS or name in targets or not math.isfinite(value):
            raise ConfigError(
                "--goodput must be METRIC:MILLISECONDS, where METRIC is one of"
                f" {', '.join(GOODPUT_METRICS)}, each at most once; got {pair!r}."
            )
        if value < quickest:
            raise ConfigError(
                f"--goodput {pair} can never be met: by the fit, the shortest step takes"
                f" {quickest:.1f} ms; raise the target, or use --step-times of a faster machine."
            )
        targets[name] = value
    return targets


def latencies(replicas: Seq[Replica]) -> dict[str, np.ndarray]:
    """Return arrays with one entry per finished request: seconds, output tokens, priority."""
    numbers = attrgetter(
        "arrived", "admitted", "first_token", "last_token", "output_tokens", "arrival.priority"
    )
    rows = [numbers(request) for replica in replicas for request in replica.finished]
    arrived, admitted, first, last, output, priority = np.array(rows, dtype=float).T
    return {
        "ttft": first - arrived,
        "tpot": (last - first) / np.maximum(output - 1, 1),  # 0 for an answer of one token
        "e2el": last - arrived,
        "queue": admitted - arrived,
        "output_tokens": output,
        "priority": priority,
    }


def table(numbers: array, width: int) -> np.ndarray:
    return np.array(numbers).reshape(-1, width)


def summarise(replicas: Seq[Replica], goodput: Mapping[str, float]) -> Answer:
    of = latencies(replicas)
    finished = [request for replica in replicas for request in replica.finished]
    count, output_tokens = len(finished), int(of["output_tokens"].sum())
    prompt_tokens = sum(request.arrival.prompt_tokens for request in finished)
    seconds = max(replica.now for replica in replicas) - min(ended.arrived for ended in finished)
    gaps, counts = np.concatenate([table(replica.gaps, 2) for replica in replicas]).T
    answer: Answer = {
        "completed": count,
        "duration": seconds,
        "total_input_tokens": prompt_tokens,
        "total_output_tokens": output_tokens,
        "request_throughput": count / seconds,
        "output_throughput": output_tokens / seconds,
        "total_token_throughput": (prompt_tokens + output_tokens) / seconds,
        **_percentiles("ttft", of["ttft"]),
        **_percentiles("tpot", of["tpot"][of["output_tokens"] > 1]),
        **_percentiles("itl", gaps, counts),
        **_percentiles("e2el", of["e2el"]),
        **_percentiles("queue", of["queue"]),
        **_over_time(replicas, seconds),
        **_counters(replicas),
    }
    if goodput:
        met = np.all([of[name] * 1000 <= target for name, target in goodput.items()], axis=0)
        answer["request_goodput"] = float(met.sum()) / seconds
        answer["goodput_share"] = float(met.mean())
    if len(priorities := np.unique(of["priority"])) > 1:
        answer["by_priority"] = {
            str(int(priority)): _percentiles("ttft", of["ttft"][of["priority"] == priority])
            for priority in priorities
        }
    return answer


def _percentiles(name: str, seconds: np.ndarray, counts: np.ndarray | None = None) -> Answer:
    """Mean and percentiles in milliseconds under vLLM's key names; None if there are no values.

    counts: how often each value occurs; None means once
    """
    keys = [f"mean_{name}_ms", *(f"p{q:g}_{name}_ms" for q in PERCENTILES)]
    if not len(seconds):
        return dict.fromkeys(keys)
    method = "linear" if counts is None else "inverted_cdf"
    points = np.percentile(seconds, PERCENTILES, weights=counts, method=method)
    values = [np.average(seconds, weights=counts), *points]
    return {key: 1000 * float(value) for key, value in zip(keys, values, strict=True)}


def _over_time(replicas: Seq[Replica], seconds: float) -> Answer:
    """Return means over the whole time and all replicas, and peaks. An idle replica counts as 0.

    `replica_imbalance` is the longest busy time of a replica, divided by the mean busy time.
    """
    steps = [table(replica.steps, len(SERIES)) for replica in replicas]
    _, lasts, used, running, waiting = np.concatenate(steps).T
    busy = [float(steps_of[:, 1].sum()) for steps_of in steps]
    answer: Answer = {"steps": len(lasts), "replica_imbalance": max(busy) / statistics.fmean(busy)}
    share = used / replicas[0].config.num_gpu_blocks_override
    for name, values in (("kv_use", share), ("running", running), ("waiting", waiting)):
        answer[f"{name}_mean"] = float(np.dot(values, lasts)) / (seconds * len(replicas))
        answer[f"{name}_peak"] = float(values.max())
    return answer


def _counters(replicas: Seq[Replica]) -> Answer:
    """Drafts: the share that was right, and the mean number of tokens of a verification."""

    def total(name: str) -> int:
        return sum(getattr(replica.scheduler.counters, name) for replica in replicas)

    queries = total("prefix_cache_queries")
    found: Answer = {
        "prefix_hit_rate": total("prefix_cache_hits") / queries if queries else 0.0,
        "preemptions": total("num_preemptions"),
    }
    if num_drafts := total("spec_decode_num_drafts"):
        accepted = total("spec_decode_num_accepted_tokens")
        found["draft_acceptance"] = accepted / total("spec_decode_num_draft_tokens")
        found["spec_decode_acceptance_length"] = 1 + accepted / num_drafts
    return found


def plot_simulations(title: str, simulated: Mapping[str, Seq[Replica]], path: Path) -> None:
    """Draw configurations by their names; memory and queue are means over the replicas."""
    sides = []
    for name, replicas in simulated.items():
        of, total = latencies(replicas), replicas[0].config.num_gpu_blocks_override
        times = np.linspace(0, max(replica.now for replica in replicas), NUM_MOMENTS)
        used, waiting = np.mean([_at(replica, times) for replica in replicas], axis=0)
        tpot = of["tpot"][of["output_tokens"] > 1]
        sides.append(Curves(name, of["ttft"], tpot, times, 100 * used / total, waiting))
    plot(title, sides, path, "Time per output token", "Waiting requests of a replica")


def _at(replica: Replica, moments: np.ndarray) -> np.ndarray:
    """Used blocks and waiting requests at these moments; 0 while no step runs."""
    began, seconds, used, _, waiting = table(replica.steps, len(SERIES)).T
    if not len(began):
        return np.zeros((2, len(moments)))
    step = np.maximum(np.searchsorted(began, moments, side="right") - 1, 0)
    runs = (began[step] <= moments) & (moments < began[step] + seconds[step])
    return np.array([used[step], waiting[step]]) * runs
