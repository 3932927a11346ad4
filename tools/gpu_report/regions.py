"""Makes the texts and tables that the GPU report writes into pages, each from one stage's file.

A region of a page starts with `<!-- gpu: NAME -->` and ends with `<!-- end gpu -->`. If there is no
measurement, the region names the command that measures. Medians are computed here from the runs.
The regions about kernels are in `kernel_regions`, those about a profiled step in `step_regions`.
"""

import statistics
from collections.abc import Callable
from typing import Any

from kernel_regions import ladder, other_kernels
from region_text import Stage, measured_on, not_measured, readme_not_measured, table
from stage_tests import PLACES
from step_regions import decode_step, profile_intro, profile_picture

OURS = "minivllm, CUDA graphs"
WORKLOAD = {
    OURS: "",
    "transformers, continuous batching": "more than 1",
    "transformers, static batches of 32": "3",
    "transformers, one at a time": "24",
    "minivllm, enforce_eager": "",
}
"""Engine of stage `engine` -> goal for minivllm's speed divided by this engine's speed."""


def workload_speeds(engine: Stage) -> dict[str, float]:
    """Engine -> tokens per second: the median over the rounds."""
    speeds: dict[str, list[float]] = {}
    for row in engine["rows"]:
        if "reason" not in row:
            speeds.setdefault(row["engine"], []).append(row["tokens_per_s"])
    return {name: statistics.median(values) for name, values in speeds.items()}


def workload(engine: Stage) -> str:
    speeds = workload_speeds(engine)
    lines, reasons = [], []
    for name, goal in WORKLOAD.items():
        rows = [row for row in engine["rows"] if row["engine"] == name and "reason" not in row]
        if not rows:
            found = [row["reason"] for row in engine["rows"] if row["engine"] == name]
            # Without the name of the exception.
            reasons += [f"No speed: {reason.partition(': ')[2] or reason}" for reason in found[:1]]
            lines.append([name, "no speed" if found else "not measured yet", *[""] * 4, goal])
            continue
        rounds = [row["tokens_per_s"] for row in rows]
        requests = ", ".join(dict.fromkeys(str(row["requests"]) for row in rows))
        ratio = f"{speeds[OURS] / speeds[name]:.2f}" if OURS in speeds and name != OURS else ""
        lines.append(
            [
                f"{name} ({rows[0]['attention']})",
                *(f"{speed:,.0f}" for speed in (speeds[name], min(rounds), max(rounds))),
                requests,
                ratio,
                goal,
            ]
        )
    columns = [
        "engine (attention)",
        "tokens/s",
        "slowest round",
        "fastest round",
        "requests finished",
        "minivllm's speed divided by it",
        "goal",
    ]
    return "\n\n".join(
        [
            f"{measured_on(engine)} Tokens a second are the median of the rounds, over the requests"
            " that were finished. A ratio is median over median.",
            table(columns, lines),
            *reasons,
        ]
    )


def readme_speed(engine: Stage) -> str:
    speeds, peer = workload_speeds(engine), "transformers, continuous batching"
    if OURS not in speeds:
        return readme_not_measured("engine")
    text = (
        f"{speeds[OURS]:,.0f} tokens/s of Qwen3-0.6B's shape on"
        f" {engine['environment']['device']['name']}"
    )
    if peer in speeds:
        text += f", {speeds[OURS] / speeds[peer]:.1f} times `transformers`' continuous batching"
    return text


def tests(stage: Stage) -> str:
    rows = [row for row in stage["rows"] if "reason" not in row]
    passed, skipped = sum(row["passed"] for row in rows), sum(row["skipped"] for row in rows)
    ran = sum(row["tests"] for row in rows) - skipped
    num_files = sum(row["tests"] > row["skipped"] for row in rows)
    sentences = [
        measured_on(stage),
        (
            f"{passed} of {ran} tests marked `gpu` passed, in {num_files} files; {skipped} more"
            " were skipped."
        ),
        "All of `tests/kernels` has this mark, and some tests in it need no GPU.",
    ]
    failed = [f"`{failure['name']}`" for row in rows for failure in row["failures"]]
    if failed:
        sentences.append(f"Failed: {', '.join(failed)}.")
    missing = [
        f"`{place}`"
        for places in PLACES
        for place in places
        if not any(_is_in(row, place) for row in rows)
    ]
    if missing:
        sentences.append(f"Not included, because the run was incomplete: {', '.join(missing)}.")
    return " ".join(sentences)


def _is_in(row: dict[str, Any], place: str) -> bool:
    return row["key"] == place or row["key"].startswith(f"{place}/")


def intro_not_measured(stage: str) -> str:
    return (
        "This page was written without a GPU, so it has no figures; measured ones will be in"
        " [Performance](performance.md#a-decode-step-on-a-gpu)."
    )


REGIONS: dict[str, tuple[str, Callable[[Stage], str], Callable[[str], str]]] = {
    "workload": ("engine", workload, not_measured),
    "ladder": ("kernels", ladder, not_measured),
    "kernels": ("kernels", other_kernels, not_measured),
    "step": ("profile", decode_step, not_measured),
    "readme": ("engine", readme_speed, readme_not_measured),
    "tests": ("tests", tests, not_measured),
    "profile-intro": ("profile", profile_intro, intro_not_measured),
    "profile-picture": ("profile", profile_picture, not_measured),
}
"""Name of a region -> the stage, the function that makes the region's text from a measurement, and
the function that makes it without one.
"""
