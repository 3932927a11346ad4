"""The rows of `minivllm bench kernels`: each kernel and peer, checked and timed.

Only a machine with Triton can import this file.
"""

from __future__ import annotations

import statistics
from dataclasses import asdict
from functools import partial
from itertools import product
from typing import Any

import torch

from minivllm.errors import BenchError
from minivllm.kernels.mode import INTERPRETED
from minivllm.lab.bench.kernels.cases import CUDA_CASES, INTERPRETED_CASES, KernelCase, make_batch
from minivllm.lab.bench.kernels.peers import make_peers
from minivllm.lab.bench.kernels.runs import Run, check_same, make_runs
from minivllm.lab.bench.kernels.timing import seconds_in_a_row, seconds_of_runs
from minivllm.lab.common.environment import describe_environment
from minivllm.lab.common.report import progress_bar

COPY_BYTES = 2 << 30


def measure(*, num_runs: int, interpret: bool) -> dict[str, Any]:
    """Check and time all kernels and peers; return the report for `--json`.

    The row of a failed kernel or peer has a `reason` instead of times.
    """
    if not torch.cuda.is_available() and not interpret:
        raise BenchError(
            "There is no CUDA device, so kernels would be interpreted and their times would be"
            " meaningless: run this on a machine with a CUDA device, or add --interpret to test"
            " the benchmark itself on tiny shapes."
        )
    device = torch.device("cpu" if INTERPRETED else "cuda")
    times_of = partial(seconds_of_runs, device=device, num_runs=num_runs)
    source = torch.zeros((1 << 20 if INTERPRETED else COPY_BYTES) // 4, device=device)
    copy = 2 * source.nbytes / statistics.median(times_of(partial(source.clone().copy_, source)))
    # A sum writes almost nothing, like attention in decoding.
    read = source.nbytes / statistics.median(times_of(source.sum))
    del source
    rows = []
    first: dict[KernelCase, torch.Tensor] = {}
    with progress_bar() as progress:
        task = progress.add_task("kernels", total=None)
        # Peers run after all of our kernels, because some compile for minutes.
        for makers, case in product(
            (make_runs, make_peers), INTERPRETED_CASES if INTERPRETED else CUDA_CASES
        ):
            batch = make_batch(case, device)
            for name, make in makers(case, batch).items():
                row = {"name": name, "ours": makers is make_runs, **asdict(case)}
                try:
                    run = make()
                    if (result := run()) is not None:
                        check_same(case, name, result, first.setdefault(case, result.clone()))
                    row |= _times(case, times_of(run), copy)
                    if case.kernel == "decode" and makers is make_runs:
                        row |= _times_in_a_row(run, device, num_runs, as_graph=name == "static")
                except Exception as error:  # a failure must not lose the other results
                    row["reason"] = f"{type(error).__name__}: {error}"[:300]
                # Drop a peer's copy of keys and values before the next peer makes its own.
                run = None
                rows.append(row)
                # Print at once, so that an interrupted run still shows its results.
                if "reason" not in row:
                    progress.console.print(
                        f"{name}, {case.batch} x {case.context}: {row['seconds'] * 1e6:,.1f} us,"
                        f" {row['share_of_copy']:.1%} of copy",
                        markup=False,
                    )
                progress.update(task, refresh=True)
    return {
        "bench": "kernels",
        "device": "cpu" if INTERPRETED else torch.cuda.get_device_name(),
        "interpreted": INTERPRETED,
        "runs": num_runs,
        "copy_gb_per_s": copy / 1e9,
        "read_gb_per_s": read / 1e9,
        "results": [row for row in rows if "reason" not in row],
        "left_out": [row for row in rows if "reason" in row],
        **describe_environment("torch", "triton"),
    }


def _times(case: KernelCase, runs: list[float], copy_bytes_per_s: float) -> dict[str, Any]:
    seconds = statistics.median(runs)
    speed = case.bytes_moved / seconds
    return {
        "bytes": case.bytes_moved,
        "seconds": seconds,
        "gb_per_s": speed / 1e9,
        "share_of_copy": speed / copy_bytes_per_s,
        "runs": runs,
    }


def _times_in_a_row(
    run: Run, device: torch.device, num_runs: int, *, as_graph: bool
) -> dict[str, Any]:
    runs = seconds_in_a_row(run, device, num_runs, as_graph=as_graph)
    return {"seconds_in_a_row": statistics.median(runs), "runs_in_a_row": runs}
