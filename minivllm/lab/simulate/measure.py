"""The results of a simulation, from the times of its requests and the samples of its steps.

Names and definitions are those of `vllm bench serve`: TTFT, TPOT (a mean per request, without the
first token), ITL (all gaps between tokens) and E2EL. Goodput is the number of requests per second
that meet every target. Percentiles interpolate like numpy's. KV use, running and waiting requests
are means over time. The millions of gaps have few distinct values, which are stored with counts.
"""

import math
from collections.abc import Mapping
from collections.abc import Sequence as Seq

import numpy as np

from minivllm.errors import ConfigError
from minivllm.events.state import Counters
from minivllm.lab.simulate.replica import Replica
from minivllm.lab.simulate.step_time_model import Fit

PERCENTILES = (50.0, 90.0, 99.0, 99.9)
GOODPUT_METRICS = ("ttft", "tpot", "e2el")
Answer = dict[str, object]


def parse_goodput(pairs: Seq[str]) -> dict[str, float]:
    """Parse targets in milliseconds like `ttft:500 tpot:50`, as in `vllm bench serve --goodput`."""
    targets: dict[str, float] = {}
    for pair in pairs:
        name, _, number = pair.partition(":")
        try:
            value = float(number)
        except ValueError:
            value = math.nan
        if name not in GOODPUT_METRICS or not math.isfinite(value):
            raise ConfigError(
                "--goodput must be METRIC:MILLISECONDS, where METRIC is one of"
                f" {', '.join(GOODPUT_METRICS)}; got {pair!r}."
            )
        if not value > 0:
            raise ConfigError(
                f"--goodput {pair} can never be met: a target must be more than 0 milliseconds."
            )
        if name in targets:
            raise ConfigError(f"--goodput names {name} twice: give each metric one target.")
        targets[name] = value
    return targets


def check_targets(targets: Mapping[str, float], fit: Fit) -> None:
    """Raise `ConfigError` if a target is shorter than the time of a step with one token."""
    quickest = fit.model(max_tokens=1).seconds(1, 0, 0) * 1000
    for name, target in targets.items():
        if target < quickest:
            raise ConfigError(
                f"--goodput {name}:{target:g} can never be met: by the fit, the shortest step"
                f" takes {quickest:.1f} ms; raise the target, or use --step-times of a faster"
                " machine."
            )


def latencies(replicas: Seq[Replica]) -> dict[str, np.ndarray]:
    """Return arrays with one entry per finished request: latencies (seconds), output tokens,
    priority.
    """
    served = [one for replica in replicas for one in replica.finished]
    rows = [
        (x.arrived, x.admitted, x.first_token, x.last_token, x.output_tokens, x.arrival.priority)
        for x in served
    ]
    arrived, admitted, first, last, output, priority = np.array(rows, dtype=float).T
    with np.errstate(invalid="ignore"):
        tpot = np.where(output > 1, (last - first) / np.maximum(output - 1, 1), 0.0)
    return {
        "ttft": first - arrived,
        "tpot": tpot,
        "e2el": last - arrived,
        "queue": admitted - arrived,
        "output_tokens": output,
        "priority": priority,
    }


def weighted_percentile(values: np.ndarray, counts: np.ndarray, percent: float) -> float:
    """Return `np.percentile` of the list in which `values[i]` appears `counts[i]` times."""
    order = np.argsort(values, kind="stable")
    values, ends = values[order], np.cumsum(counts[order])
    rank = (ends[-1] - 1) * percent / 100
    low, high = (
        values[np.searchsorted(ends, whole, side="right")]
        for whole in (np.floor(rank), np.ceil(rank))
    )
    return float(low + (high - low) * (rank - np.floor(rank)))


def summarise(replicas: Seq[Replica], goodput: Mapping[str, float]) -> Answer:
    of = latencies(replicas)
    count = len(of["ttft"])
    began = min(one.arrived for replica in replicas for one in replica.finished)
    seconds = max(replica.now for replica in replicas) - began
    prompt_tokens = sum(
        one.arrival.prompt_tokens for replica in replicas for one in replica.finished
    )
    output_tokens = int(of["output_tokens"].sum())
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
        **_gap_percentiles(replicas),
        **_percentiles("e2el", of["e2el"]),
        **_percentiles("queue", of["queue"]),
        **_over_time(replicas, seconds),
        **_counters(replicas),
    }
    if goodput:
        met = np.all([of[name] * 1000 <= target for name, target in goodput.items()], axis=0)
        answer |= {
            "request_goodput": float(met.sum()) / seconds,
            "goodput_share": float(met.mean()),
        }
    if (of["priority"] != of["priority"][0]).any():
        answer["by_priority"] = {
            str(int(one)): _percentiles("ttft", of["ttft"][of["priority"] == one])
            for one in np.unique(of["priority"])
        }
    return answer | _imbalance(replicas, seconds)


def _percentiles(name: str, seconds: np.ndarray) -> Answer:
    """Mean and percentiles in milliseconds under vLLM's key names; None if there are no values."""
    ms = seconds * 1000
    found: Answer = {f"mean_{name}_ms": float(ms.mean()) if len(ms) else None}
    return found | {
        f"p{q:g}_{name}_ms": float(np.percentile(ms, q)) if len(ms) else None for q in PERCENTILES
    }


def _gap_percentiles(replicas: Seq[Replica]) -> Answer:
    seconds = np.concatenate(
        [np.frombuffer(replica.gaps.seconds) for replica in replicas if replica.gaps.seconds]
        or [[]]
    )
    counts = np.concatenate(
        [np.array(replica.gaps.counts) for replica in replicas if replica.gaps.counts] or [[]]
    )
    if not len(seconds):
        return _percentiles("itl", seconds)
    found: Answer = {"mean_itl_ms": float(np.average(seconds, weights=counts)) * 1000}
    return found | {
        f"p{q:g}_itl_ms": weighted_percentile(seconds, counts, q) * 1000 for q in PERCENTILES
    }


def _over_time(replicas: Seq[Replica], seconds: float) -> Answer:
    """Return means over the whole time and all replicas, and peaks. An idle replica counts as 0."""
    total = replicas[0].config.num_gpu_blocks_override
    whole = seconds * len(replicas)

    def mean(name: str) -> float:
        return (
            sum(float(np.dot(getattr(r.samples, name), r.samples.seconds)) for r in replicas)
            / whole
        )

    def peak(name: str) -> int:
        return max(max(getattr(replica.samples, name), default=0) for replica in replicas)

    return {
        "kv_use_mean": mean("used_blocks") / total,
        "kv_use_peak": peak("used_blocks") / total,
        "running_mean": mean("running"),
        "running_peak": peak("running"),
        "waiting_mean": mean("waiting"),
        "waiting_peak": peak("waiting"),
        "steps": sum(len(replica.samples.began) for replica in replicas),
    }


def _counters(replicas: Seq[Replica]) -> Answer:
    counters = [replica.scheduler.counters for replica in replicas]
    queries = sum(one.prefix_cache_queries for one in counters)
    return {
        "prefix_hit_rate": (
            sum(one.prefix_cache_hits for one in counters) / queries if queries else 0.0
        ),
        "preemptions": sum(one.num_preemptions for one in counters),
        **_drafts(counters),
    }


def _drafts(counters: Seq[Counters]) -> Answer:
    """Return the share of right drafts, and the mean number of tokens that a verification gives."""
    num_drafts = sum(one.spec_decode_num_drafts for one in counters)
    tokens = sum(one.spec_decode_num_draft_tokens for one in counters)
    accepted = sum(one.spec_decode_num_accepted_tokens for one in counters)
    if not num_drafts:
        return {}
    return {
        "draft_acceptance": accepted / tokens,
        "spec_decode_acceptance_length": 1 + accepted / num_drafts,
    }


def _imbalance(replicas: Seq[Replica], seconds: float) -> Answer:
    """Return each replica's work, and `replica_imbalance`.

    `replica_imbalance` is the longest busy time of a replica, divided by the mean busy time. A
    high value shows that a better router could help.
    """
    busy = [sum(replica.samples.seconds) / seconds for replica in replicas]
    rows = [
        {
            "requests": len(replica.finished),
            "output_tokens": sum(one.output_tokens for one in replica.finished),
            "busy": share,
            "p99_ttft_ms": _percentiles("ttft", _ttft(replica))["p99_ttft_ms"],
        }
        for replica, share in zip(replicas, busy, strict=True)
    ]
    return {"replica_imbalance": max(busy) / (sum(busy) / len(busy)), "per_replica": rows}


def _ttft(replica: Replica) -> np.ndarray:
    return np.array([one.time_to_first_token for one in replica.finished])
