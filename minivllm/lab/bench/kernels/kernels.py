"""`minivllm bench kernels`: time and memory traffic of attention and cache writes.

In decoding, attention mostly reads keys and values. So a kernel's speed is a share of the device's
copy speed in the same run. Judge only by large shapes: reading sixteen megabytes takes less time
than two launches. Prefill is compute-bound, so even a good kernel has a low share.
"""

import argparse
from collections.abc import Callable
from importlib.util import find_spec

from minivllm.errors import TritonMissingError
from minivllm.lab import bench
from minivllm.lab.common.report import Report, positive_int


def add_arguments(add: Callable[..., None]) -> None:
    add("--runs N", "number of timed runs of each kernel", type=positive_int, default=20)
    add("--interpret", "without a CUDA device: tiny shapes, meaningless times")


def measure(args: argparse.Namespace) -> Report:
    if find_spec("triton") is None:
        raise TritonMissingError("bench kernels")
    result = bench.measure_kernels(num_runs=args.runs, interpret=args.interpret)
    rows = [
        (
            row["name"],
            str(row["batch"]),
            f"{row['context'] or '-'}{'+' + str(row['chunk']) if row['chunk'] else ''}",
            f"{row['seconds'] * 1e6:,.1f}",
            f"{row['gb_per_s']:,.1f}",
            f"{row['share_of_copy']:.1%}",
            f"{row['seconds_in_a_row'] * 1e6:,.1f}" if "seconds_in_a_row" in row else "",
        )
        for row in result["results"]
    ]
    columns = ("kernel", "batch", "context", "us", "GB/s", "of copy", "us, launched in a row")
    notes = [
        f"The device copies {result['copy_gb_per_s']:,.1f} GB/s (read and written). All results"
        " of a shape are equal.",
        f"Launched in a row: one of {bench.IN_A_ROW} launches without a pause, like the layers of a"
        " step; `static` as a CUDA graph.",
    ]
    warning = "INTERPRETED: kernels ran in Python, so the times are not those of any device."
    notes += [warning] * result["interpreted"]
    reasons = {row["name"]: row["reason"] for row in result["left_out"]}
    notes += [f"Left out: {name}: {reason}" for name, reason in reasons.items()]
    title = f"Kernels on {result['device']}, median of {args.runs} runs"
    failed = any(row["ours"] for row in result["left_out"])
    return Report(title, columns, rows, notes, result, status=int(failed))
