"""Stages `kernels` and `tune`: rows of `minivllm.lab.bench.kernels.kernels` and `tuning`.

In a dry run, kernels are interpreted on tiny shapes, and the times have no meaning.
"""

from importlib import import_module

from stage_file import StageFailedError, StageFile

from minivllm.lab.bench.kernels.kernels import measure_rows

RUNS = 20
TUNING = "minivllm.lab.bench.kernels.tuning"


def run_kernels(report: StageFile, *, dry_run: bool) -> None:
    """Add a row for each shape of each kernel or peer.

    Raises `StageFailedError` if one of our kernels has no time.
    """
    for row in measure_rows(num_runs=2 if dry_run else RUNS, interpret=dry_run, wants=report.wants):
        report.add(row)
    broken = [row["key"] for row in report.rows.values() if row.get("ours") and "reason" in row]
    if broken:
        raise StageFailedError(
            f"These kernels of minivllm have no time: {', '.join(broken)}; the rows contain the"
            " reasons."
        )


def run_tune(report: StageFile, *, dry_run: bool) -> None:
    """Add a row per candidate, then a row per complete table entry, and print the entries."""
    try:
        tuning = import_module(TUNING)
    except ModuleNotFoundError as error:
        if error.name != TUNING:
            raise
        raise StageFailedError(
            "minivllm/lab/bench/kernels/tuning.py does not exist, so there is nothing to tune:"
            " leave the stage out."
        ) from error
    try:
        tuning.tune(on_row=report.add, dry_run=dry_run, wants=report.wants)
    finally:  # some entries may be complete even after a timeout
        conclusions = list(tuning.conclude(list(report.rows.values()), dry_run))
        for row in conclusions:
            report.add(row)
        print("\n".join(tuning.entries_to_commit(conclusions)), flush=True)
