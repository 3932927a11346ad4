"""Measures candidates for the attention kernels' launch table on this device.

For each kernel and head size, every candidate runs on one case that fills a GPU. Candidates for the
minimum length of a split run on two cases that do not. `conclude` compares the fastest candidates
with `minivllm.kernels.launch_table`, which a person then changes, with the reason. The row of a
failed candidate (for example, with too much shared memory) has a reason instead of a time.
"""

import statistics
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import Any
from unittest import mock

import torch

from minivllm.kernels import launch_table
from minivllm.kernels.attention import decode_split
from minivllm.kernels.attention.online_softmax import MIN_DOT
from minivllm.kernels.launch_table import LaunchParameters
from minivllm.kernels.mode import INTERPRETED
from minivllm.lab.bench.kernels.cases import TINY, KernelCase, make_batch
from minivllm.lab.bench.kernels.runs import Run, check_result, make_runs
from minivllm.lab.bench.kernels.timing import seconds_of_runs

RUNS = 9
HEADS = {64: (32, 8), 128: (16, 8), 256: (8, 4)}
"""Head size -> query heads and key heads, as in Llama-3.2-1B, Qwen3-0.6B and Gemma-3-1B."""
WORTH_CHANGING = 0.02
"""A candidate replaces the current entry only if it needs less time by at least this share."""
MIN_TOKENS = "MIN_TOKENS_PER_SPLIT"

Candidate = LaunchParameters | int
Row = dict[str, Any]


@dataclass(frozen=True)
class TuningEntry:
    """One entry of the launch table, and its candidates; the first is the current entry."""

    name: str
    """Part of the rows' keys, for example `prefill (128, 2)`."""
    table: str
    """The table's name in `launch_table`."""
    key: tuple[int, int] | None
    """The entry's key in the table; None for a constant."""
    kernel: str
    """The kernel's name in `runs.make_runs`."""
    cases: tuple[KernelCase, ...]
    candidates: tuple[Candidate, ...]

    def row_key(self, candidate: Candidate, case: KernelCase) -> str:
        at = "" if self.key is not None else f" at {case.batch}x{case.context}"
        return f"{self.name} {_name(candidate)}{at}"

    def patched(self, candidate: Candidate) -> AbstractContextManager[object]:
        """Return a context in which kernels are launched with the candidate's parameters."""
        if self.key is not None:
            return mock.patch.dict(getattr(launch_table, self.table), {self.key: candidate})
        # `choose_num_splits` reads the name that `decode_split` has imported.
        return mock.patch.object(decode_split, self.table, candidate)

    def line(self, candidate: Candidate) -> str:
        if self.key is None:
            return f"{self.table} = {candidate}"
        fields = ", ".join(
            f"{name}={value}" for name, value in asdict(candidate).items() if value is not None
        )
        return f"{self.key}: LaunchParameters({fields}),"


def tune(
    on_row: Callable[[Row], None], dry_run: bool, wants: Callable[[str], bool] = lambda key: True
) -> None:
    """Measure the wanted candidates and pass each row to `on_row` as soon as it is measured.

    dry_run: measure only two candidates per entry, on tiny shapes; interpreted kernels will do
    wants: called with a row's key; returns whether to measure the row
    """
    device = torch.device("cpu" if INTERPRETED else "cuda")
    num_runs = 2 if dry_run else RUNS
    for entry in _entries(dry_run):
        for case in entry.cases:
            wanted = (
                candidate for candidate in entry.candidates if wants(entry.row_key(candidate, case))
            )
            batch = None
            for candidate in wanted:
                batch = make_batch(case, device) if batch is None else batch
                row = {
                    "key": entry.row_key(candidate, case),
                    "kernel": entry.name.partition(" (")[0],
                    "head_size": case.head_size,
                    **(asdict(candidate) if entry.key is not None else {"min_tokens": candidate}),
                }
                with entry.patched(candidate):
                    try:
                        run: Run = make_runs(case, batch)[entry.kernel]()
                        check_result(case, batch, entry.kernel, run)
                        runs = seconds_of_runs(run, device, num_runs)
                    # An error (too much shared memory, too few registers) is a result, too.
                    except Exception as error:
                        on_row(row | {"reason": f"{type(error).__name__}: {error}"[:200]})
                        continue
                on_row(row | {"runs": runs, "seconds": statistics.median(runs)})


def conclude(rows: Iterable[Row], dry_run: bool) -> Iterator[Row]:
    """Yield which candidate to commit, for each entry with rows for all candidates.

    rows: rows of `tune`, from this run and from earlier runs
    """
    found = {row["key"]: row for row in rows}
    for entry in _entries(dry_run):
        rows_of = {
            candidate: [found.get(entry.row_key(candidate, case)) for case in entry.cases]
            for candidate in entry.candidates
        }
        if all(None not in rows for rows in rows_of.values()):
            yield _conclusion(entry, rows_of)


def entries_to_commit(conclusions: Iterable[Row]) -> Iterator[str]:
    """Yield lines for `launch_table`: the name of each table, then the table's entries."""
    table = None
    for row in conclusions:
        if "entry" not in row:
            continue
        if row["table"] != table:
            table = row["table"]
            yield f"# {table}"
        yield row["entry"]


def _conclusion(entry: TuningEntry, rows_of: dict[Candidate, list[Row]]) -> Row:
    """Choose the fastest candidate if it clearly beats the current one; else keep the current.

    If the current candidate failed, choose the fastest of the others.
    """
    current = entry.candidates[0]
    row = {
        "key": f"{entry.name} to commit", "kernel": entry.name.partition(" (")[0],
        "table": entry.table, "head_size": entry.cases[0].head_size, "current": _name(current),
    }  # fmt: skip
    # With several cases, add up their times.
    medians = {
        candidate: sum(row["seconds"] for row in rows)
        for candidate, rows in rows_of.items()
        if all("seconds" in row for row in rows)
    }
    if not medians:
        return row | {"reason": "No candidate ran."}
    fastest = min(medians, key=medians.__getitem__)
    is_current_good = (
        current in medians and medians[fastest] > (1 - WORTH_CHANGING) * medians[current]
    )
    best = current if is_current_good else fastest
    return row | {
        "to_commit": _name(best),
        "entry": entry.line(best),
        "fastest": _name(fastest),
        "runs": [sum(runs) for runs in zip(*(row["runs"] for row in rows_of[best]), strict=True)],
        "seconds": medians[best],
        "seconds_now": medians.get(current),
    }


def _entries(dry_run: bool) -> Iterator[TuningEntry]:
    """Yield the entries to tune. In a dry run, each has two candidates and tiny shapes."""
    decode = partial(KernelCase, "decode", 64, 4096)
    for name, table, kernel, make in (
        ("split", "DECODE", "split", decode),
        ("prefill", "PREFILL", "prefill", partial(KernelCase, "prefill", 4, 2048)),
        ("unified", "UNIFIED", "unified", partial(KernelCase, "mixed", 64, 4096, chunk=512)),
        ("unified decode", "UNIFIED_DECODE", "unified", decode),
    ):
        cases = [
            make(heads=heads, kv_heads=kv_heads, head_size=size)
            for size, (heads, kv_heads) in HEADS.items()
        ]
        if dry_run:
            cases = [KernelCase(make.args[0], 2, 19, chunk=7 if name == "unified" else 0, **TINY)]
        for case in cases:
            key = (max(64, case.head_size), getattr(torch, case.dtype).itemsize)
            candidates = tuple(
                dict.fromkeys([getattr(launch_table, table)[key], *_candidates(table)])
            )
            yield TuningEntry(
                f"{name} {key}", table, key, kernel, (case,), candidates[: 2 if dry_run else None]
            )
    shapes = ((1, 4096), (16, 512))
    cases = tuple(KernelCase("decode", *shape) for shape in shapes)
    candidates = tuple(dict.fromkeys([launch_table.MIN_TOKENS_PER_SPLIT, 64, 128, 256]))
    if dry_run:
        cases, candidates = (KernelCase("decode", 2, 19, **TINY),), candidates[:2]
    yield TuningEntry("min tokens per split", MIN_TOKENS, None, "split", cases, candidates)


def _candidates(table: str) -> Iterator[LaunchParameters]:
    """Yield the candidates of a table: few enough to compile and run in two minutes."""
    if table in ("DECODE", "UNIFIED_DECODE"):
        for tile, num_warps, num_stages in product((32, 64, 128), (1, 2, 4), (2, 3, 4)):
            yield LaunchParameters(MIN_DOT, tile, num_warps, num_stages)
        return
    # The bound on registers per thread limits how many warps fit on a multiprocessor.
    for (rows, num_warps, bounds), tile, num_stages in product(
        ((64, 4, (None, 128, 168)), (128, 8, (None, 128))), (32, 64, 128), (2, 3)
    ):
        for max_registers in bounds:
            yield LaunchParameters(rows, tile, num_warps, num_stages, max_registers)
    if table == "UNIFIED":
        yield LaunchParameters(MIN_DOT, 64, 2, 3)
        yield LaunchParameters(32, 64, 2, 3)


def _name(candidate: Candidate) -> str:
    """Describe a candidate: rows x tile, warps, stages and registers, or tokens per split."""
    if isinstance(candidate, int):
        return f"{candidate} tokens"
    bound = "" if candidate.max_registers is None else f", {candidate.max_registers} registers"
    return (
        f"{candidate.rows}x{candidate.tile}, {candidate.num_warps} warps, {candidate.num_stages}"
        f" stages{bound}"
    )
