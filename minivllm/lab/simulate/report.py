"""Several configurations in one command, such as `--scheduling-policy fcfs,priority`.

Every option in `VARIED` takes a list. Each combination is one simulation of the same requests and
one row of the table. The report states the number of requests, because the p99.9 of a hundred is
just the slowest one.
"""

import argparse
import math
import time
from collections.abc import Callable, Mapping
from collections.abc import Sequence as Seq
from dataclasses import asdict, dataclass, fields
from itertools import product

from minivllm.config import EngineConfig
from minivllm.lab.common.report import Report, print_report, progress_bar
from minivllm.lab.simulate.arrivals import Arrival
from minivllm.lab.simulate.measure import PERCENTILES, Answer, summarise
from minivllm.lab.simulate.replica import Replica
from minivllm.lab.simulate.run import Setup, build_replicas, simulate
from minivllm.lab.simulate.step_times import Fit, StepTimes
from minivllm.lab.simulate.workload import at_rate

VARIED = {
    "replicas": "replicas",
    "prefill_replicas": "prefill",
    "decode_replicas": "decode",
    "gigabytes_per_second": "GB/s",
    "router": "router",
    "rate": "requests/s",
    "scheduling_policy": "policy",
    "batching": "batching",
    "kv_cache_allocator": "memory",
    "max_num_batched_tokens": "budget",
    "max_num_seqs": "slots",
    "num_gpu_blocks_override": "blocks",
    "acceptance_rate": "accepted",
}
"""Option that can have several values -> title of the option's column."""
_OF_SETUP = VARIED.keys() & {field.name for field in fields(Setup)}
_LATENCIES = {
    "ttft": "first token (TTFT)",
    "itl": "between tokens (ITL)",
    "tpot": "a token, mean (TPOT)",
    "e2el": "last token (E2EL)",
    "queue": "waiting for a slot",
}
_ROWS = (
    ("requests/s", "request_throughput", "{:.3g}"),
    ("output tokens/s", "output_throughput", "{:,.1f}"),
    ("goodput, requests/s", "request_goodput", "{:.3g}"),
    ("  of all requests", "goodput_share", "{:.1%}"),
    ("KV cache in use, mean", "kv_use_mean", "{:.1%}"),
    ("  peak", "kv_use_peak", "{:.1%}"),
    ("prefix hit rate", "prefix_hit_rate", "{:.1%}"),
    ("preemptions", "preemptions", "{:,}"),
    ("drafts that were right", "draft_acceptance", "{:.0%}"),
    ("  tokens per verification", "spec_decode_acceptance_length", "{:.2f}"),
    ("running, mean", "running_mean", "{:.1f}"),
    ("waiting, mean", "waiting_mean", "{:.1f}"),
    ("  peak", "waiting_peak", "{:,.0f}"),
    ("busiest replica / mean", "replica_imbalance", "{:.2f}"),
    ("simulated seconds", "duration", "{:,.0f}"),
)
_COLUMNS = (
    ("tokens/s", "output_throughput", "{:,.0f}"),
    ("goodput", "goodput_share", "{:.0%}"),
    ("TTFT p50", "p50_ttft_ms", "{:,.0f}"),
    ("p99", "p99_ttft_ms", "{:,.0f}"),
    ("ITL p99", "p99_itl_ms", "{:,.0f}"),
    ("KV", "kv_use_mean", "{:.0%}"),
    ("at once", "running_mean", "{:.1f}"),
    ("hits", "prefix_hit_rate", "{:.0%}"),
    ("preempted", "preemptions", "{:,}"),
    ("imbalance", "replica_imbalance", "{:.2f}"),
)
"""Columns of the table with one row per configuration; latencies are in milliseconds."""
Table = tuple[Seq[str], list[Seq[str]]]


@dataclass(frozen=True, slots=True)
class Simulated:
    setup: Setup
    differing: dict[str, str]
    """The options in which the setups differ: title of the column -> value."""
    replicas: Seq[Replica]
    answer: Answer
    wall_seconds: float  # real time that the simulation took

    @property
    def name(self) -> str:
        return ", ".join(map(" ".join, self.differing.items())) or "one configuration"


def setups(
    args: argparse.Namespace, common: Mapping[str, object], rates: list[float | None]
) -> list[Setup]:
    """Return every combination; `common` has the engine's other options.

    Raises `ConfigError` if the engine would refuse a combination.
    """
    given = vars(args) | {"rate": rates, "acceptance_rate": args.acceptance_rate or [None]}
    found = []
    for values in product(*(given[name] for name in VARIED)):
        options = dict(zip(VARIED, values, strict=True))
        of_setup = {name: options.pop(name) for name in _OF_SETUP}
        found.append(Setup(EngineConfig(**common, **options), seed=args.seed, **of_setup))
    return found


def _options(setup: Setup) -> dict[str, object]:
    """The values of the options in `VARIED`."""
    return {name: getattr(setup if name in _OF_SETUP else setup.config, name) for name in VARIED}


def _show(value: object) -> str:
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def run_all(
    all_setups: list[Setup],
    crowd: list[Arrival],
    fit: Fit,
    goodput: Mapping[str, float],
    watch_first: Callable[[Replica], object],
) -> list[Simulated]:
    """Simulate every configuration with the same requests; progress goes to standard error.

    watch_first: called with each configuration's first replica before it starts
    """
    done, rows = [], [_options(setup) for setup in all_setups]
    names = [name for name in VARIED if len({row[name] for row in rows}) > 1]
    with progress_bar() as bar:
        for setup, row in zip(all_setups, rows, strict=True):
            replicas = build_replicas(setup, fit)
            differing = {VARIED[name]: _show(row[name]) for name in names}
            task = bar.add_task(" ".join(differing.values()), total=len(crowd))

            def show(task: int = task, replicas: Seq[Replica] = replicas) -> None:
                finished = sum(len(replica.finished) for replica in replicas)
                bar.update(task, completed=finished, refresh=True)

            arrivals = crowd if setup.rate is None else at_rate(crowd, setup.rate)
            watch_first(replicas[0])
            started = time.perf_counter()
            simulate(setup, replicas, arrivals, show)
            wall = time.perf_counter() - started
            answer = summarise(replicas, goodput)
            done.append(Simulated(setup, differing, replicas, answer, wall))
    return done


def print_answers(
    simulated: list[Simulated],
    fit: Fit,
    step_times: StepTimes,
    result: dict[str, object],
    as_json: bool,
) -> None:
    result = {
        **result,
        "fit": asdict(fit),
        "configurations": [
            {
                **_options(run.setup),
                # JSON has no infinity.
                "rate": "inf" if run.setup.rate == math.inf else run.setup.rate,
                **run.answer,
                "simulated_in_s": run.wall_seconds,
            }
            for run in simulated
        ],
    }
    notes = [
        f"Fit: {fit.num_points} measured steps, each predicted without itself: R²"
        f" {fit.r_squared:.4f}, error {fit.median_relative_error:.1%} (median),"
        f" {fit.p90_relative_error:.1%} (p90)."
    ]
    measured = max(point.num_scheduled_tokens for point in step_times.points)
    asked = max(run.setup.config.max_num_batched_tokens for run in simulated)
    if asked > measured:
        notes.append(
            f"Warning: the longest measured step has {measured} tokens, but steps of up to"
            f" {asked} tokens are predicted from it."
        )
    steps = sum(run.answer["steps"] for run in simulated)
    wall = sum(run.wall_seconds for run in simulated)
    notes.append(f"{steps:,} steps were planned by the real scheduler in {wall:.1f} s here.")
    rates = {run.setup.rate for run in simulated}
    rate = "arriving as in the file"
    if rates != {None}:
        rate = f"{', '.join(map(_show, sorted(rates)))} a second"
    title = f"{result['requests']:,} requests, {rate}; steps of {step_times.label}"
    header, rows = _one_in_detail(simulated[0]) if len(simulated) == 1 else _row_for_each(simulated)
    print_report(Report(title, header, rows, notes, result), as_json)


def _one_in_detail(run: Simulated) -> Table:
    header = ("milliseconds", "mean", *(f"p{percent:g}" for percent in PERCENTILES))
    rows: list[Seq[str]] = [
        (label, cell, *[""] * len(PERCENTILES))
        for label, key, form in _ROWS
        if (cell := _cell(run.answer, key, form))
    ]
    for key, label in _LATENCIES.items():
        cells = [_cell(run.answer, f"{statistic}_{key}_ms", "{:,.1f}") for statistic in header[1:]]
        rows.append((label, *cells))
    return header, rows


def _row_for_each(simulated: list[Simulated]) -> Table:
    # Leave out a column whose cells all mean "nothing" (empty, 0, or an imbalance of 1).
    columns = {
        label: cells
        for label, key, form in _COLUMNS
        if set(cells := [_cell(run.answer, key, form) for run in simulated])
        - {"", "0", "0%", "1.00"}
    }
    header = (*simulated[0].differing, *columns)
    rows = zip(*columns.values(), strict=True)
    return header, [
        (*run.differing.values(), *row) for run, row in zip(simulated, rows, strict=True)
    ]


def _cell(answer: Answer, key: str, form: str) -> str:
    """Format a value; return "" if the value is missing (goodput without targets, for example)."""
    value = answer.get(key)
    return "" if value is None else form.format(value)
