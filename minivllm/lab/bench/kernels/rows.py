"""The rows of `minivllm bench kernels`: each kernel and its peer, checked and timed.

CUDA events time single runs. Before each, the device fills a large buffer. This clears the L2
cache, as the other layers do in an engine, and keeps the device busy while Python launches the
kernel: the launch of a small kernel takes longer than the kernel (as in triton's `do_bench`).

Only a machine with Triton can import this file.
"""

from __future__ import annotations

import statistics
import timeit
from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from importlib.metadata import version
from typing import Any

import torch

from minivllm.errors import BenchError
from minivllm.kernels.mode import INTERPRETED
from minivllm.lab.bench.kernels.cases import CUDA_CASES, INTERPRETED_CASES, KernelCase, make_batch
from minivllm.lab.bench.kernels.runs import PEER, check_same, make_runs
from minivllm.lab.bench.step.machine import waiting_clock
from minivllm.lab.common.report import progress_bar

COPY_BYTES = 2 << 30
FLUSH_BYTES = 512 << 20  # ten times the L2 cache of an H200; writing it takes over 100 microseconds
WARM_UP_RUNS = 3
IN_A_ROW = 28  # number of launches without a pause: one for each layer of Qwen3-0.6B


def measure_kernels(*, num_runs: int, interpret: bool) -> dict[str, Any]:
    """Check and time all kernels and their peer; a row that failed has a `reason`, no times."""
    if not torch.cuda.is_available() and not interpret:
        raise BenchError(
            "There is no CUDA device, so times would be meaningless: run this where there is one,"
            " or add --interpret to test the benchmark itself on tiny shapes."
        )
    device = torch.device("cpu" if INTERPRETED else "cuda")
    times_of = partial(seconds_of_runs, device=device, num_runs=num_runs)
    source = torch.zeros((1 << 20 if INTERPRETED else COPY_BYTES) // 4, device=device)
    copy = 2 * source.nbytes / statistics.median(times_of(partial(source.clone().copy_, source)))
    del source
    rows = []
    first: dict[KernelCase, torch.Tensor] = {}
    cases = INTERPRETED_CASES if INTERPRETED else CUDA_CASES
    with progress_bar() as progress:
        for case in progress.track(cases, description="kernels"):
            progress.refresh()
            batch = make_batch(case, device)
            for name, make in make_runs(case, batch).items():
                row = {"name": name, "ours": name != PEER, **asdict(case)}
                try:
                    run = make()
                    if (result := run()) is not None:
                        check_same(case, name, result, first.setdefault(case, result.clone()))
                    row |= _times(case, times_of(run), copy)
                    if device.type == "cuda" and case.kernel == "decode" and name != PEER:
                        runs = seconds_in_a_row(run, device, num_runs, as_graph=name == "static")
                        row |= {"seconds_in_a_row": statistics.median(runs), "runs_in_a_row": runs}
                except Exception as error:  # a failure must not lose the other results
                    row["reason"] = f"{type(error).__name__}: {error}"[:300]
                run = None  # frees the peer's copy of keys and values
                rows.append(row)
                # Print at once, so that an interrupted run still shows its results.
                if "reason" not in row:
                    speed = f"{row['seconds'] * 1e6:,.1f} us, {row['share_of_copy']:.1%} of copy"
                    progress.console.print(f"{name}, {case.batch} x {case.context}: {speed}")
    return {
        "device": "cpu" if INTERPRETED else torch.cuda.get_device_name(),
        "interpreted": INTERPRETED,
        "copy_gb_per_s": copy / 1e9,
        "results": [row for row in rows if "reason" not in row],
        "left_out": [row for row in rows if "reason" in row],
        "triton": version("triton"),
    }


def _times(case: KernelCase, runs: list[float], copy_bytes_per_s: float) -> dict[str, Any]:
    seconds, size = statistics.median(runs), case.bytes_moved
    speeds = {"gb_per_s": size / seconds / 1e9, "share_of_copy": size / seconds / copy_bytes_per_s}
    return {"bytes": size, "seconds": seconds, **speeds, "runs": runs}


def seconds_of_runs(
    function: Callable[[], object], device: torch.device, num_runs: int
) -> list[float]:
    """Return the time of each of `num_runs` runs, after a warm-up that also compiles."""
    for _ in range(WARM_UP_RUNS if device.type == "cuda" else 1):
        function()
    if device.type != "cuda":
        return timeit.repeat(function, repeat=num_runs, number=1)
    flush = torch.empty(FLUSH_BYTES, dtype=torch.int8, device=device)
    pairs = [tuple(torch.cuda.Event(enable_timing=True) for _ in range(2)) for _ in range(num_runs)]
    for begin, end in pairs:
        flush.zero_()
        begin.record()
        function()
        end.record()
    torch.cuda.synchronize(device)
    return [begin.elapsed_time(end) / 1000 for begin, end in pairs]


def seconds_in_a_row(
    function: Callable[[], object], device: torch.device, num_runs: int, *, as_graph: bool
) -> list[float]:
    """Return the time per launch in each run; a run is `IN_A_ROW` launches without a pause.

    If the launch from Python takes longer than the kernel, the result is the launch time.

    as_graph: record the launches as a CUDA graph and replay the graph, as the engine does
    """

    def run() -> None:
        for _ in range(IN_A_ROW):
            function()

    replay = run
    if as_graph:
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize(device)
        with torch.cuda.graph(graph):
            run()
        replay = graph.replay
    # The device is idle at the start, as in a step that has waited for its sampled tokens.
    now = waiting_clock(timeit.default_timer, device)
    seconds = timeit.repeat(replay, timer=now, repeat=WARM_UP_RUNS + num_runs, number=1)
    return [run / IN_A_ROW for run in seconds[WARM_UP_RUNS:]]
