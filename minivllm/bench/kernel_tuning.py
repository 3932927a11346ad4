"""Measures candidates for the launch table of the attention kernels (`minivllm.kernels.launch_table`) on this device.

For each kernel and head size every candidate runs on one case that fills a GPU. What comes out is a row for each
candidate, and one that names the fastest beside what the table has now. Nothing is changed: a table entry is committed
by hand, with its reason.

A candidate can fail: it may want more shared memory than the device has. Its row then says so in place of a time.
"""

import statistics
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import partial
from itertools import product
from unittest import mock

import torch

from minivllm.bench.kernel_cases import TINY, Batch, KernelCase, make_batch
from minivllm.bench.kernel_runs import Run, check, make_runs
from minivllm.bench.kernel_timing import seconds_of_runs
from minivllm.kernels import launch_table
from minivllm.kernels.launch_table import LaunchParameters
from minivllm.kernels.mode import INTERPRETED
from minivllm.kernels.online_softmax import MIN_DOT

RUNS = 9
HEADS = {64: (32, 8), 128: (16, 8), 256: (8, 4)}
"""Head size -> query heads and key heads: Llama-3.2-1B, Qwen3-0.6B, Gemma-3-1B's width."""
WORTH_CHANGING = 0.02
"""Share of the time that a candidate must gain over the table's entry to be named instead of it."""

Table = dict[tuple[int, int], LaunchParameters]


def tune(on_row: Callable[[dict[str, object]], None], dry_run: bool) -> None:
    """Measure all candidates, and hand over one row each as it is known; then, for each table entry, the best.

    dry_run: two candidates on tiny shapes, which may be interpreted
    """
    device = torch.device("cpu" if INTERPRETED else "cuda")
    for kernel, table, case in _cases(dry_run):
        batch = make_batch(case, device)
        key = (max(64, case.head_size), getattr(torch, case.dtype).itemsize)
        current = table[key]
        candidates = dict.fromkeys([current, *_candidates(kernel)])
        times: dict[LaunchParameters, list[float]] = {}
        for candidate in list(candidates)[: 2 if dry_run else None]:
            row = {
                "key": f"{kernel} {key} {_name(candidate)}",
                "kernel": kernel,
                "head_size": case.head_size,
                **asdict(candidate),
            }
            with mock.patch.dict(table, {key: candidate}):
                try:
                    runs = _time(kernel, case, batch, device, 2 if dry_run else RUNS)
                except Exception as error:  # too much shared memory, too few registers: that is an answer, too
                    on_row(row | {"reason": f"{type(error).__name__}: {error}"[:200]})
                    continue
            times[candidate] = runs
            on_row(row | {"runs": runs, "seconds": statistics.median(runs)})
        on_row(_conclusion(kernel, key, current, times))


def _conclusion(
    kernel: str, key: tuple[int, int], current: LaunchParameters, times: dict[LaunchParameters, list[float]]
) -> dict[str, object]:
    """Which candidate to commit: the table's own unless another one is clearly faster, or it did not run."""
    row = {"key": f"{kernel} {key} to commit", "kernel": kernel, "head_size": key[0], "current": _name(current)}
    if not times:
        return row | {"reason": "No candidate ran."}
    medians = {candidate: statistics.median(runs) for candidate, runs in times.items()}
    fastest = min(medians, key=medians.__getitem__)
    is_current_good = current in medians and medians[fastest] > (1 - WORTH_CHANGING) * medians[current]
    best = current if is_current_good else fastest
    return row | {
        "to_commit": _name(best),
        "fastest": _name(fastest),
        "runs": times[best],
        "seconds": medians[best],
        "seconds_now": medians.get(current),
    }


def _time(kernel: str, case: KernelCase, batch: Batch, device: torch.device, num_runs: int) -> list[float]:
    run: Run = make_runs(case, batch)[kernel]()
    check(case, batch, kernel, run)
    return seconds_of_runs(run, device, num_runs)


def _cases(dry_run: bool) -> Iterator[tuple[str, Table, KernelCase]]:
    """Name of a kernel, its table, and the case that candidates are compared on."""
    tables = (
        ("split", launch_table.DECODE, partial(KernelCase, "decode", 64, 4096)),
        ("prefill", launch_table.PREFILL, partial(KernelCase, "prefill", 4, 2048)),
        ("unified", launch_table.UNIFIED, partial(KernelCase, "mixed", 64, 4096, chunk=512)),
    )
    for name, table, make in tables:
        if dry_run:
            yield name, table, KernelCase(make.args[0], 2, 19, chunk=7 if name == "unified" else 0, **TINY)
            continue
        for head_size, (heads, kv_heads) in HEADS.items():
            yield name, table, make(heads=heads, kv_heads=kv_heads, head_size=head_size)


def _candidates(kernel: str) -> Iterator[LaunchParameters]:
    """What is worth trying: few enough to compile and run in two minutes."""
    if kernel == "split":
        for tile, num_warps, num_stages in product((32, 64, 128), (1, 2, 4), (2, 3, 4)):
            yield LaunchParameters(MIN_DOT, tile, num_warps, num_stages)
        return
    # A thread's registers: as many warps as share a multiprocessor's, so each size of program has its own bounds.
    for (rows, num_warps, bounds), tile, num_stages in product(
        ((64, 4, (None, 128, 168)), (128, 8, (None, 128))), (32, 64, 128), (2, 3)
    ):
        for max_registers in bounds:
            yield LaunchParameters(rows, tile, num_warps, num_stages, max_registers)
    if kernel == "unified":
        yield LaunchParameters(MIN_DOT, 64, 2, 3)
        yield LaunchParameters(32, 64, 2, 3)


def _name(launch: LaunchParameters) -> str:
    """Rows x tile, warps, stages, and the bound on registers if there is one."""
    bound = "" if launch.max_registers is None else f", {launch.max_registers} registers"
    return f"{launch.rows}x{launch.tile}, {launch.num_warps} warps, {launch.num_stages} stages{bound}"
