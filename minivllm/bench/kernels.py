"""`minivllm bench kernels`: time and memory traffic of every kernel, against the device's own copy and against peers.

Attention while decoding does little but read keys and values, so the measure of a kernel is the share of the device's
copy speed that it reaches, and that is taken in the same run. The engine's kernels all run as they are; peers where they
are installed. What is counted as moved: `kernel_cases`; how it is timed: `kernel_timing`; what is checked: `kernel_runs`.

Easy to get wrong: to read a share at a small shape. Sixteen megabytes are read in less time than two launches take; only
the large shapes show what a kernel can do. Prefill computes more than it reads, so its share stays low however good it is.
"""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import TYPE_CHECKING

from minivllm.bench.environment import describe_environment
from minivllm.bench.report import add_json_argument, positive_int, print_report, progress_bar
from minivllm.errors import BenchError

if TYPE_CHECKING:
    from minivllm.bench.kernel_cases import KernelCase

MIN_RUNS = 5


def result_row(case: KernelCase, name: str, seconds: float, copy_bytes_per_s: float) -> dict[str, object]:
    """One measurement as it goes into the JSON."""
    speed = case.bytes_moved / seconds
    return {
        "name": name,
        **asdict(case),
        "bytes": case.bytes_moved,
        "seconds": seconds,
        "gb_per_s": speed / 1e9,
        "share_of_copy": speed / copy_bytes_per_s,
    }


def measure(*, num_runs: int, interpret: bool) -> dict[str, object]:
    """Check and time every case; the JSON object. Raises `BenchError` without a CUDA device, unless `interpret`."""
    import torch

    if not torch.cuda.is_available() and not interpret:
        raise BenchError(
            "There is no CUDA device here, so kernels would be interpreted and their times mean nothing; run this on a "
            "machine with one, or add --interpret to try the bench itself on tiny shapes."
        )
    from minivllm.bench.kernel_cases import CUDA_CASES, INTERPRETED_CASES, make_batch
    from minivllm.bench.kernel_runs import check, make_peers, make_runs
    from minivllm.bench.kernel_timing import copy_bytes_per_s, median_seconds
    from minivllm.kernels.mode import INTERPRETED

    device = torch.device("cpu" if INTERPRETED else "cuda")
    copy_speed = copy_bytes_per_s(device, num_runs)
    results, left_out = [], []
    with progress_bar() as progress:
        for case in progress.track(INTERPRETED_CASES if INTERPRETED else CUDA_CASES, description="kernels"):
            progress.refresh()
            batch = make_batch(case, device)
            for name, run in make_runs(case, batch).items():
                check(case, batch, name, run)
                results.append(result_row(case, name, median_seconds(run, device, num_runs), copy_speed))
            for name, make in make_peers(case, batch).items():
                try:
                    run = make()
                    check(case, batch, name, run)
                    seconds = median_seconds(run, device, num_runs)
                except Exception as error:  # a peer's failure is not ours, and must not cost our own results
                    left_out.append({"name": name, **asdict(case), "reason": f"{type(error).__name__}: {error}"[:300]})
                else:
                    results.append(result_row(case, name, seconds, copy_speed))
    return {
        "bench": "kernels",
        "device": "cpu" if INTERPRETED else torch.cuda.get_device_name(device),
        "interpreted": INTERPRETED,
        "runs": num_runs,
        "copy_gb_per_s": copy_speed / 1e9,
        "results": results,
        "left_out": left_out,
        **describe_environment("torch", "triton"),
    }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--runs", type=_enough_runs, default=20, help="timed runs of each (default: %(default)s)")
    parser.add_argument(
        "--interpret", action="store_true", help="without a CUDA device: tiny shapes, times mean nothing"
    )
    add_json_argument(parser)


def _enough_runs(text: str) -> int:
    runs = positive_int(text)
    if runs < MIN_RUNS:
        raise argparse.ArgumentTypeError(f"must be at least {MIN_RUNS}, for a median; got {runs}.")
    return runs


def run(args: argparse.Namespace) -> int:
    """Measure and report; the exit status."""
    result = measure(num_runs=args.runs, interpret=args.interpret)
    rows = [
        (
            row["name"],
            str(row["batch"]),
            str(row["context"] or "-"),
            f"{row['heads']}/{row['kv_heads']}x{row['head_size']}, {row['block_size']}, {row['dtype']}",
            f"{row['seconds'] * 1e6:,.1f}",
            f"{row['gb_per_s']:,.1f}",
            f"{row['share_of_copy']:.1%}",
        )
        for row in result["results"]
    ]
    columns = ("kernel", "batch", "context", "heads/kv x size, block, dtype", "microseconds", "GB/s", "of copy")
    notes = [
        f"The device copies {result['copy_gb_per_s']:,.1f} GB/s (read and written). Each result equals the reference."
    ]
    if result["interpreted"]:
        notes.append("INTERPRETED: Python ran these kernels, so the times say nothing about any device.")
    notes += [
        f"Left out: {name}: {reason}"
        for name, reason in {one["name"]: one["reason"] for one in result["left_out"]}.items()
    ]
    print_report(f"Kernels on {result['device']}, median of {args.runs} runs", columns, rows, notes, result, args.json)
    return 0
