"""The rows of `minivllm bench kernels`: each kernel and peer, checked and timed.

Only a machine with Triton can import this file.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict
from itertools import product

import torch

from minivllm.errors import BenchError
from minivllm.kernels.mode import INTERPRETED
from minivllm.lab.bench.kernels.cases import CUDA_CASES, INTERPRETED_CASES, KernelCase, make_batch
from minivllm.lab.bench.kernels.peers import make_peers
from minivllm.lab.bench.kernels.runs import check_result, make_runs
from minivllm.lab.bench.kernels.timing import (
    Movement,
    measure_copy,
    measure_read,
    seconds_in_a_row,
    seconds_of_runs,
)
from minivllm.lab.common.environment import describe_environment
from minivllm.lab.common.report import progress_bar

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
    `reason` instead of times. Raises `BenchError` without a CUDA device.
    """
    _require_device(interpret)
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
