"""Stages `kernels` and `tune`: rows of `minivllm.lab.bench.kernels`: `rows` and `tuning`.

In a dry run, kernels are interpreted on tiny shapes, and the times have no meaning.
"""

from stage_file import StageFailedError, StageFile

from minivllm.lab.bench.kernels import tuning
from minivllm.lab.bench.kernels.rows import measure_rows

RUNS = 20


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
        tuning.tune(on_row=report.add, dry_run=dry_run, wants=report.wants)
    finally:  # some entries may be complete even after a timeout
        conclusions = list(tuning.conclude(list(report.rows.values()), dry_run))
        for row in conclusions:
            report.add(row)
        print("\n".join(tuning.entries_to_commit(conclusions)), flush=True)
