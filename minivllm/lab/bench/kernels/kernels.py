"""`minivllm bench kernels`: time and memory traffic of attention and cache writes.

In decoding, attention mostly reads keys and values. So a kernel's speed is a share of the device's
copy speed in the same run. Installed peers run after all of our kernels, because some compile for
minutes.

Judge a kernel only by large shapes: reading sixteen megabytes takes less time than two launches.
Prefill is compute-bound, so even a good kernel has a low share.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict
from importlib.util import find_spec
from itertools import product
from typing import TYPE_CHECKING

from minivllm.errors import BenchError, TritonMissingError
from minivllm.lab.common.environment import describe_environment
from minivllm.lab.common.report import add_json_argument, positive_int, print_report, progress_bar

if TYPE_CHECKING:
    from minivllm.lab.bench.kernels.cases import KernelCase
    from minivllm.lab.bench.kernels.timing import Movement

MIN_RUNS = 5
COPY, READ = "device/copy", "device/read"
"""Keys of the two rows that measure the device and not a kernel."""


def result_row(
    case: KernelCase, name: str, runs: list[float], copy_bytes_per_s: float
) -> dict[str, object]:
    """Return the JSON row of one measurement. runs: seconds"""
    seconds = statistics.median(runs)
    speed = case.bytes_moved / seconds
    return {
        "name": name,
        **asdict(case),
        "bytes": case.bytes_moved,
        "seconds": seconds,
        "gb_per_s": speed / 1e9,
        "share_of_copy": speed / copy_bytes_per_s,
        "runs": runs,
    }


def measure_rows(
    *, num_runs: int, interpret: bool, wants: Callable[[str], bool] = lambda key: True
) -> Iterator[dict[str, object]]:
    """Check and time all kernels and peers; yield each row as soon as it is measured.

    wants: called with each row's unique `key`; returns whether to measure the row, or raises an
        error to end the measurement

    The first two rows are `device/copy` and `device/read`. The row of a failed kernel or peer has a
    `reason` instead of times. Raises `TritonMissingError`, or `BenchError` without a CUDA device.
    """
    _require_device(interpret)
    import torch

    from minivllm.kernels.mode import INTERPRETED
    from minivllm.lab.bench.kernels.cases import CUDA_CASES, INTERPRETED_CASES, make_batch
    from minivllm.lab.bench.kernels.peers import make_peers
    from minivllm.lab.bench.kernels.runs import check_result, make_runs
    from minivllm.lab.bench.kernels.timing import (
        measure_copy,
        measure_read,
        seconds_in_a_row,
        seconds_of_runs,
    )

    device = torch.device("cpu" if INTERPRETED else "cuda")
    copy = measure_copy(device, num_runs)
    if wants(COPY):
        yield {"key": COPY, "name": "copy", **_movement_row(copy)}
    if wants(READ):
        yield {"key": READ, "name": "read", **_movement_row(measure_read(device, num_runs))}
    cases = INTERPRETED_CASES if INTERPRETED else CUDA_CASES
    for makers, case in product((make_runs, make_peers), cases):
        batch = make_batch(case, device)
        ours = makers is make_runs
        for name, make in makers(case, batch).items():
            chunk = f"+{case.chunk}" if case.chunk else ""
            key = f"{case.kernel}/{name}/{case.batch}x{case.context}{chunk}"
            if not wants(key):
                continue
            try:
                run = make()
                check_result(case, batch, name, run)
                row = result_row(
                    case, name, seconds_of_runs(run, device, num_runs), copy.bytes_per_s
                )
                if case.kernel == "decode" and ours:
                    in_a_row = seconds_in_a_row(run, device, num_runs, as_graph=name == "static")
                    median = statistics.median(in_a_row)
                    row |= {"seconds_in_a_row": median, "runs_in_a_row": in_a_row}
            except Exception as error:  # a failure must not lose the other results
                row = {
                    "name": name,
                    **asdict(case),
                    "reason": f"{type(error).__name__}: {error}"[:300],
                }
            # Drop a peer's copy of keys and values before the next peer makes its own.
            run = None
            yield {"key": key, "ours": ours, **row}


def _movement_row(movement: Movement) -> dict[str, object]:
    seconds = statistics.median(movement.runs)
    return {
        "bytes": movement.num_bytes,
        "seconds": seconds,
        "gb_per_s": movement.bytes_per_s / 1e9,
        "runs": movement.runs,
    }


def _require_device(interpret: bool) -> None:
    if find_spec("triton") is None:
        raise TritonMissingError("bench kernels")
    import torch

    if not torch.cuda.is_available() and not interpret:
        raise BenchError(
            "There is no CUDA device, so kernels would be interpreted and their times would be"
            " meaningless: run this on a machine with a CUDA device, or add --interpret to test"
            " the benchmark itself on tiny shapes."
        )


def measure(*, num_runs: int, interpret: bool) -> dict[str, object]:
    """Print each row of `measure_rows` as it is measured, and return the report for `--json`."""
    _require_device(interpret)  # before the progress bar, which would leave an empty line
    rows = []
    with progress_bar() as progress:
        task = progress.add_task("kernels", total=None)
        for row in measure_rows(num_runs=num_runs, interpret=interpret):
            rows.append(row)
            # Print at once, so that an interrupted run still shows its results.
            if "share_of_copy" in row:
                progress.console.print(_row_text(row), markup=False)
            progress.update(task, refresh=True)
    import torch

    from minivllm.kernels.mode import INTERPRETED

    (copy,) = (row for row in rows if row["key"] == COPY)
    return {
        "bench": "kernels",
        "device": "cpu" if INTERPRETED else torch.cuda.get_device_name(),
        "interpreted": INTERPRETED,
        "runs": num_runs,
        "copy_gb_per_s": copy["gb_per_s"],
        "results": [row for row in rows if "share_of_copy" in row],
        "left_out": [row for row in rows if "reason" in row],
        **describe_environment("torch", "triton"),
    }


def _row_text(row: dict[str, object]) -> str:
    return (
        f"{row['name']}, {row['batch']} x {row['context']}: {row['seconds'] * 1e6:,.1f} us,"
        f" {row['share_of_copy']:.1%} of copy"
    )


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
    result = measure(num_runs=args.runs, interpret=args.interpret)
    from minivllm.lab.bench.kernels.timing import IN_A_ROW

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
