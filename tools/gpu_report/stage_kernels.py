"""Stages `kernels` and `tune`: the rows of `minivllm.bench.kernels` and of `minivllm.bench.kernel_tuning`.

In a dry run the kernels are interpreted on tiny shapes, and their times mean nothing.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from stage_file import StageFailedError, StageFile

from minivllm.bench.kernels import measure_rows

RUNS = 20
TUNING = "minivllm.bench.kernel_tuning"


def run_kernels(report: StageFile, *, dry_run: bool) -> None:
    """Add a row for each kernel or peer and shape. Raises `StageFailedError` if a kernel of ours gave no time."""
    for row in measure_rows(num_runs=2 if dry_run else RUNS, interpret=dry_run, wants=report.wants):
        report.add(row)
    broken = [row["key"] for row in report.rows.values() if row.get("ours") and "reason" in row]
    if broken:
        raise StageFailedError(f"Kernels of ours gave no time: {', '.join(broken)}; the rows say why.")


def run_tune(report: StageFile, *, dry_run: bool) -> None:
    """Add the rows of the tuning bench. Rows of an earlier run are measured again, since it cannot be told what to leave out."""
    tune: Callable[..., None]
    try:
        tune = import_module(TUNING).tune
    except ModuleNotFoundError as error:
        if error.name != TUNING:
            raise
        raise StageFailedError(
            "minivllm/bench/kernel_tuning.py does not exist, so there is nothing to tune: leave the stage out."
        ) from error

    def on_row(row: dict[str, Any]) -> None:
        report.add(row)
        report.check_time(f"after the row {row['key']}")

    tune(on_row=on_row, dry_run=dry_run)
