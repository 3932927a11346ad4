"""Makes the texts and tables that the GPU report writes into pages, each from one stage's file.

A region of a page starts with `<!-- gpu: NAME -->` and ends with `<!-- end gpu -->`. If there is no
measurement, the region names the command that measures. Medians are computed here from the runs.
"""

import statistics
from collections import Counter
from collections.abc import Callable
from typing import Any

from stage_tests import PLACES

Stage = dict[str, Any]


class MissingError(Exception):
    """A stage's file lacks something that the pages need; the message says how to get it."""


LADDER_AT = (64, 4096)
"""Batch and context in the table of kernel versions. The goals are for this shape."""
LESSON_AT = (LADDER_AT, (1, 16384))
"""Shapes in lesson 12: a full batch, and a single long sequence, with which splits matter."""
GOALS = {"split": "85 %", "static": "85 %"}
PREFILL_GOAL_AT = (1, 4096)
PREFILL_GOAL = "at least 60 %"
PREFILL_PEER = "sdpa (gathered)"
OPTIONAL_PEERS = {"decode": ("FlashInfer",)}
"""Kernel -> peers that are left out if they are not installed, as prefixes of row names."""
OURS = "minivllm, CUDA graphs"
WORKLOAD = {
    OURS: "",
    "transformers, continuous batching": "more than 1",
    "transformers, static batches of 32": "3",
    "transformers, one at a time": "24",
    "minivllm, enforce_eager": "",
}
"""Engine of stage `engine` -> goal for minivllm's speed divided by this engine's speed."""
STEP_GOAL = "under 15 %"
PICTURED_BATCH = 64
SHAPE = "16 query heads, 8 key heads, head size 128, blocks of 16, bfloat16"


def readme_not_measured(stage: str) -> str:
    return "not measured yet: `make gpu-report`"


def not_measured(stage: str) -> str:
    return (
        f"Not measured yet. On a machine with a CUDA device `python tools/gpu_report {stage} --out"
        " report` measures it, and `python tools/gpu_report/tables.py report` writes it here."
    )


def measured_on(stage: Stage) -> str:
    device, versions = stage["environment"]["device"], stage["environment"]["versions"]
    packages = ", ".join(
        f"{name} {versions[name]}" for name in ("torch", "triton", "transformers", "numpy")
    )
    driver = f" (driver {device['driver']})" if device["driver"] else ""
    text = (
        f"`python tools/gpu_report {stage['stage']} --out report`, {stage['began'][:10]},"
        f" {device['name']}{driver}; Python {versions['python']}, {packages}."
    )
    if stage["status"] != "done":
        text += f" The stage is incomplete ({stage['status']}), so rows may be missing."
    return text


def table(columns: list[str], rows: list[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def microseconds(seconds: float) -> str:
    value = seconds * 1e6
    return f"{value:,.0f}" if value >= 100 else f"{value:,.1f}"


def copy_speed(kernels: Stage) -> float:
    """Return the device's copy speed in GB/s. Both bytes read and bytes written count."""
    speed = next((row["gb_per_s"] for row in kernels["rows"] if row["key"] == "device/copy"), None)
    if speed is None:
        raise MissingError(
            "kernels.json has no row device/copy, against which the kernels are compared: run "
            "python tools/gpu_report kernels into the same folder again."
        )
    return speed


def rows_of(stage: Stage, kernel: str) -> list[dict[str, Any]]:
    return [row for row in stage["rows"] if row.get("kernel") == kernel]


def kernel_versions(kernels: Stage, at: tuple[int, int]) -> list[dict[str, Any]]:
    """Return our decode kernels at a batch and context, in the order of kernel versions."""
    rows = rows_of(kernels, "decode")
    return [
        row
        for row in rows
        if row["ours"] and (row["batch"], row["context"]) == at and "reason" not in row
    ]


def ladder(kernels: Stage) -> str:
    copy = copy_speed(kernels)
    peers = [
        row
        for row in rows_of(kernels, "decode")
        if not row["ours"] and (row["batch"], row["context"]) == LADDER_AT and "reason" not in row
    ]
    lines, before = [], None
    for row in [*kernel_versions(kernels, LADDER_AT), *peers]:
        gain = (
            f"{before['seconds'] / row['seconds']:.2f} times"
            if before is not None and row["ours"]
            else ""
        )
        in_a_row = microseconds(row["seconds_in_a_row"]) if "seconds_in_a_row" in row else ""
        name = f"`{row['name']}`" if row["ours"] else row["name"]
        share = f"{row['gb_per_s'] / copy:.0%}".replace("%", " %")
        goal = GOALS.get(row["name"], "")
        lines.append(
            [
                name,
                microseconds(row["seconds"]),
                f"{row['gb_per_s']:,.0f}",
                share,
                gain,
                in_a_row,
                goal,
            ]
        )
        before = row
    columns = [
        "kernel",
        "µs",
        "GB/s",
        "of the copy",
        "against the row before",
        "µs, among 28 in a row",
        "goal",
    ]
    batch, context = LADDER_AT
    read = next((row["gb_per_s"] for row in kernels["rows"] if row["key"] == "device/read"), None)
    reads = f" and reads {read:,.0f}" if read is not None else ""
    return "\n\n".join(
        [
            (
                f"{measured_on(kernels)} {batch} sequences of {context:,} tokens ({SHAPE}). The"
                f" device copies {copy:,.0f} GB/s{reads}. Medians of {_num_runs(kernels)} runs."
            ),
            table(columns, lines),
            "Microseconds at every shape, batch x context:",
            _matrix(rows_of(kernels, "decode")),
            *_left_out(rows_of(kernels, "decode")),
            *_not_installed(kernels),
        ]
    )


def other_kernels(kernels: Stage) -> str:
    copy = copy_speed(kernels)
    small = [
        [
            f"`{row['name']}`",
            f"{row['batch']:,} {'tokens' if row['kernel'] == 'kv_write' else 'blocks'}",
            microseconds(row["seconds"]),
            f"{row['gb_per_s']:,.0f}",
            f"{row['gb_per_s'] / copy:.0%}".replace("%", " %"),
        ]
        for kernel in ("kv_write", "block_copy")
        for row in rows_of(kernels, kernel)
        if "reason" not in row
    ]
    rows = [*rows_of(kernels, "prefill"), *rows_of(kernels, "mixed")]
    return "\n\n".join(
        [
            f"{measured_on(kernels)} {SHAPE}; medians of {_num_runs(kernels)} runs.",
            (
                "Prefill of whole prompts, and 63 decodes beside a chunk (`+`), in microseconds, by"
                " batch x context:"
            ),
            _matrix(rows),
            *_speed_of_peer(kernels),
            table(["kernel", "size", "µs", "GB/s", "of the copy"], small),
            *_left_out(rows),
        ]
    )


def _matrix(rows: list[dict[str, Any]]) -> str:
    shapes = list(dict.fromkeys(_shape(row) for row in rows))
    found = {
        (row["name"], _shape(row)): microseconds(row["seconds"])
        for row in rows
        if "reason" not in row
    }
    names = {row["name"]: f"`{row['name']}`" if row["ours"] else row["name"] for row in rows}
    lines = [
        [shown, *(found.get((name, shape), "") for shape in shapes)]
        for name, shown in names.items()
    ]
    return table(["kernel", *shapes], lines)


def _shape(row: dict[str, Any]) -> str:
    chunk = f" + {row['chunk']:,}" if row["chunk"] else ""
    return f"{row['batch']} x {row['context']:,}{chunk}"


def _left_out(rows: list[dict[str, Any]]) -> list[str]:
    reasons = {row["name"]: row["reason"].partition("\n")[0] for row in rows if "reason" in row}
    return [
        f"No time at some shapes: {name} (`{reason[:120]}`)." for name, reason in reasons.items()
    ]


def _not_installed(kernels: Stage) -> list[str]:
    missing = [
        peer
        for kernel, peers in OPTIONAL_PEERS.items()
        for peer in peers
        if not any(row["name"].startswith(peer) for row in rows_of(kernels, kernel))
    ]
    return [f"Not installed there: {', '.join(missing)}."] if missing else []


def _speed_of_peer(kernels: Stage) -> list[str]:
    """Compare our prefill kernels with torch's at the goal's shape; return [] if not measured."""
    batch, context = PREFILL_GOAL_AT
    rows = [
        row
        for row in rows_of(kernels, "prefill")
        if (row["batch"], row["context"]) == PREFILL_GOAL_AT and "reason" not in row
    ]
    peer = next((row["seconds"] for row in rows if row["name"] == PREFILL_PEER), None)
    shares = [
        f"`{row['name']}` {peer / row['seconds'] * 100:.1f} %"
        for row in rows
        if row["ours"] and peer is not None
    ]
    if not shares:
        return []
    return [
        f"Speed against {PREFILL_PEER} at {batch} x {context:,} (goal: {PREFILL_GOAL}):"
        f" {', '.join(shares)}. Decode kernels have their goal, {GOALS['split']} of the copy, in"
        " [the ladder](#the-ladder-of-decode-kernels)."
    ]


def _num_runs(stage: Stage) -> int:
    return min(len(row["runs"]) for row in stage["rows"] if "runs" in row)


def workload_speeds(engine: Stage) -> dict[str, float]:
    """Return for each engine the tokens per second: the median over the rounds."""
    speeds: dict[str, list[float]] = {}
    for row in engine["rows"]:
        if "reason" not in row:
            speeds.setdefault(row["engine"], []).append(row["tokens_per_s"])
    return {name: statistics.median(values) for name, values in speeds.items()}


def workload(engine: Stage) -> str:
    speeds = workload_speeds(engine)
    lines = []
    for name, goal in WORKLOAD.items():
        rows = [row for row in engine["rows"] if row["engine"] == name and "reason" not in row]
        if not rows:
            reason = next((row["reason"] for row in engine["rows"] if row["engine"] == name), None)
            lines.append(
                [
                    name,
                    "not measured yet" if reason is None else f"no speed: {reason}",
                    "",
                    "",
                    "",
                    goal,
                ]
            )
            continue
        rounds = ", ".join(f"{row['tokens_per_s']:,.0f}" for row in rows)
        requests = ", ".join(dict.fromkeys(str(row["requests"]) for row in rows))
        ratio = f"{speeds[OURS] / speeds[name]:.2f}" if OURS in speeds and name != OURS else ""
        lines.append(
            [
                f"{name} ({rows[0]['attention']})",
                f"{speeds[name]:,.0f}",
                rounds,
                requests,
                ratio,
                goal,
            ]
        )
    columns = [
        "engine (attention)",
        "tokens/s",
        "each round",
        "requests",
        "minivllm against it",
        "goal",
    ]
    return (
        f"{measured_on(engine)} Tokens a second are the median of the rounds, and a ratio is median"
        " over median. Where fewer than 256 requests were finished, the speed is that of"
        f" these.\n\n{table(columns, lines)}"
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


def decode_step(profile: Stage) -> str:
    lines = []
    for row in profile["rows"]:
        numbers = [statistics.median(row[name]) for name in ("runs", "profiled_runs", "busy")]
        outside = f"{row['outside_kernels']:.0%}, {row['outside_kernels_profiled']:.0%}".replace(
            "%", " %"
        )
        lines.append(
            [
                str(row["batch"]),
                "no" if row["enforce_eager"] else "yes",
                *(f"{seconds * 1e3:.2f}" for seconds in numbers),
                f"{statistics.median(row['launches']):,.0f}",
                f"{statistics.median(row['kernels']):,.0f}",
                outside,
            ]
        )
    columns = [
        "sequences",
        "CUDA graphs",
        "step",
        "step, profiled",
        "kernels run",
        "launches",
        "kernels",
    ]
    columns.append(f"outside of kernels (step, profiled step; goal with graphs: {STEP_GOAL})")
    first = profile["rows"][0]
    return "\n\n".join(
        [
            (
                f"{measured_on(profile)} Decode steps in Qwen3-0.6B's shape, prompts of the"
                " published workload with half an average output behind them"
                f" ({_prompt_lengths(profile)}). Milliseconds: medians of {len(first['runs'])}"
                f" steps, and of {len(first['profiled_runs'])} under torch's profiler."
            ),
            table(columns, lines),
            (
                "Requests return their output only at the end, as with `LLM.generate`, and the"
                " events have no subscribers. A server streams tokens and emits events, so it has"
                " more host work in each step."
            ),
            *_top_kernels(profile),
        ]
    )


def _prompt_lengths(profile: Stage) -> str:
    """Return the mean prompt length of each batch, which is equal with and without graphs."""
    means = {row["batch"]: row["prompt_tokens"] / row["batch"] for row in profile["rows"]}
    return "on average " + ", ".join(
        f"{mean:,.0f} tokens at batch {batch}" for batch, mean in means.items()
    )


def _top_kernels(profile: Stage) -> list[str]:
    row = next((row for row in profile["rows"] if row["key"] == f"graphs/{PICTURED_BATCH}"), None)
    if row is None:
        return []
    lines = [
        [
            f"`{kernel['name'][:70].replace('|', ' ')}`",
            microseconds(kernel["seconds"]),
            f"{kernel['launches']:g}",
        ]
        for kernel in row["top_kernels"]
    ]
    return [
        f"The kernels with most time of a step of {PICTURED_BATCH}:",
        table(["kernel", "µs of a step", "launches"], lines),
    ]


def profile_intro(profile: Stage) -> str:
    found = {row["key"]: row for row in profile["rows"]}
    row = found.get(f"graphs/{PICTURED_BATCH}", profile["rows"][0])
    wall, busy = statistics.median(row["runs"]), statistics.median(row["busy"])
    return (
        f"On an {profile['environment']['device']['name']} ({profile['began'][:10]}) a decode step"
        f" of {row['batch']} sequences in Qwen3-0.6B's shape took {wall * 1e3:.2f} ms, and kernels"
        f" ran in {busy * 1e3:.2f} ms of it. All figures are in"
        " [Performance](../performance.md#a-decode-step-on-a-gpu)."
    )


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
        " [Performance](../performance.md#a-decode-step-on-a-gpu)."
    )


def _host_time(profile: Stage, kind: str, words: str) -> str:
    row = next(
        (
            row
            for row in profile["rows"]
            if row["key"] == f"{kind}/{PICTURED_BATCH}" and "timeline" in row
        ),
        None,
    )
    if row is None:
        return ""
    spent = Counter({"launch": 0.0, "wait": 0.0, "python": 0.0})
    for one in row["timeline"]:
        if one["on"] == "host":
            spent[one["name"] if one["name"] in spent else "python"] += one["duration"]
    milliseconds = {name: f"{total / 1e3:.1f} ms" for name, total in spent.items()}
    return (
        f"{words} the host spent {milliseconds['launch']} in launches and other calls of CUDA,"
        f" {milliseconds['wait']} waiting for the device, and {milliseconds['python']} in Python."
    )


def profile_picture(profile: Stage) -> str:
    if all("timeline" not in row for row in profile["rows"]):
        return (
            f"The profile has no step of {PICTURED_BATCH} sequences, which is what the picture"
            " shows."
        )
    return (
        f"[![One decode step of {PICTURED_BATCH} sequences on a time axis: what the host does, and"
        " when kernels run on the device, with CUDA graphs and"
        " without.](../assets/gpu-step.svg)](../assets/gpu-step.svg)\n\nOne decode step of"
        f" {PICTURED_BATCH} sequences under torch's profiler,"
        f" {profile['environment']['device']['name']}, {profile['began'][:10]}."
        f" {_host_time(profile, 'graphs', 'With CUDA graphs')}"
        f" {_host_time(profile, 'eager', 'Without them')}"
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
"""Name of a region -> the stage, the function that makes the region's text, and the function that
makes the text if there is no measurement.
"""
