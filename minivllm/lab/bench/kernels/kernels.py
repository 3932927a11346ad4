"""`minivllm bench kernels`: time and memory traffic of attention and cache writes.

In decoding, attention mostly reads keys and values. So a kernel's speed is a share of the device's
copy speed in the same run. Installed peers run after all of our kernels, because some compile for
minutes.

Judge a kernel only by large shapes: reading sixteen megabytes takes less time than two launches.
Prefill is compute-bound, so even a good kernel has a low share.
"""

import argparse
from importlib.util import find_spec

from minivllm.errors import TritonMissingError
from minivllm.lab.common.report import add_json_argument, positive_int, print_report

MIN_RUNS = 5


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--runs",
        type=_enough_runs,
        default=20,
        help="number of timed runs of each kernel (default: %(default)s)",
    )
    parser.add_argument(
        "--interpret",
        action="store_true",
        help="without a CUDA device: tiny shapes, meaningless times",
    )
    add_json_argument(parser)


def _enough_runs(text: str) -> int:
    runs = positive_int(text)
    if runs < MIN_RUNS:
        raise argparse.ArgumentTypeError(f"must be at least {MIN_RUNS} for a median; got {runs}.")
    return runs


def run(args: argparse.Namespace) -> int:
    if find_spec("triton") is None:
        raise TritonMissingError("bench kernels")
    from minivllm.lab.bench.kernels.rows import measure
    from minivllm.lab.bench.kernels.timing import IN_A_ROW

    result = measure(num_runs=args.runs, interpret=args.interpret)
    rows = [
        (
            row["name"],
            str(row["batch"]),
            str(row["context"] or "-"),
            (
                f"{row['heads']}/{row['kv_heads']}x{row['head_size']}, {row['block_size']},"
                f" {row['dtype']}"
            ),
            f"{row['seconds'] * 1e6:,.1f}",
            f"{row['gb_per_s']:,.1f}",
            f"{row['share_of_copy']:.1%}",
            f"{row['seconds_in_a_row'] * 1e6:,.1f}" if "seconds_in_a_row" in row else "",
        )
        for row in result["results"]
    ]
    columns = (
        "kernel",
        "batch",
        "context",
        "heads/kv x size, block, dtype",
        "microseconds",
        "GB/s",
        "of copy",
        "us, launched in a row",
    )
    notes = [
        (
            f"The device copies {result['copy_gb_per_s']:,.1f} GB/s (read and written). Each result"
            " equals the reference."
        ),
        (
            f"Launched in a row: one of {IN_A_ROW} launches without a pause, like the layers of a"
            " step; `static` as a CUDA graph."
        ),
    ]
    if result["interpreted"]:
        notes.append(
            "INTERPRETED: these kernels ran in Python, so the times are not those of any device."
        )
    notes += [
        f"Left out: {name}: {reason}"
        for name, reason in {
            skipped["name"]: skipped["reason"] for skipped in result["left_out"]
        }.items()
    ]
    print_report(
        f"Kernels on {result['device']}, median of {args.runs} runs",
        columns,
        rows,
        notes,
        result,
        args.json,
    )
    return 1 if any(skipped["ours"] for skipped in result["left_out"]) else 0
