"""The regions about one decode step under the profiler: its table, its picture, its summary."""

import statistics
from collections import Counter

from region_text import Stage, measured_on, microseconds, table

STEP_GOAL = "under 15 %"
PICTURED_BATCH = 64


def decode_step(profile: Stage) -> str:
    lines = []
    for row in profile["rows"]:
        numbers = [statistics.median(row[name]) for name in ("runs", "profiled_runs", "busy")]
        outside = [row[name] for name in ("outside_kernels", "outside_kernels_profiled")]
        lines.append(
            [
                str(row["batch"]),
                "no" if row["enforce_eager"] else "yes",
                *(f"{seconds * 1e3:.2f}" for seconds in numbers),
                f"{statistics.median(row['launches']):,.0f}",
                f"{statistics.median(row['kernels']):,.0f}",
                *(f"{share * 100:.0f} %" for share in outside),
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
        f"outside of kernels (goal with graphs: {STEP_GOAL})",
        "outside of kernels, profiled",
    ]
    first = profile["rows"][0]
    return "\n\n".join(
        [
            (
                f"{measured_on(profile)} Decode steps in Qwen3-0.6B's shape. Each sequence has a"
                " prompt of the published workload and half of an average output"
                f" ({_prompt_lengths(profile)}). Milliseconds: medians of {len(first['runs'])}"
                f" steps, and of {len(first['profiled_runs'])} under torch's profiler."
            ),
            table(columns, lines),
            (
                "Here the engine returns a request's output only at the end, as `LLM.generate`"
                " does,"
                " and nothing subscribes to the events. A server streams tokens and emits"
                " events, so"
                " the host has more work in each of its steps."
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
        f"The kernels that take the most time in a step of {PICTURED_BATCH} sequences:",
        table(["kernel", "µs in a step", "launches"], lines),
    ]


def profile_intro(profile: Stage) -> str:
    found = {row["key"]: row for row in profile["rows"]}
    row = found.get(f"graphs/{PICTURED_BATCH}", profile["rows"][0])
    wall, busy = statistics.median(row["runs"]), statistics.median(row["busy"])
    return (
        f"On an {profile['environment']['device']['name']} ({profile['began'][:10]}) a decode step"
        f" of {row['batch']} sequences of a model with Qwen3-0.6B's shape took {wall * 1e3:.2f}"
        f" ms, and kernels ran in {busy * 1e3:.2f} ms of it. All figures are in"
        " [Performance](performance.md#a-decode-step-on-a-gpu)."
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
    for interval in row["timeline"]:
        if interval["on"] == "host":
            spent[interval["name"] if interval["name"] in spent else "python"] += interval[
                "duration"
            ]
    milliseconds = {name: f"{total / 1e3:.1f} ms" for name, total in spent.items()}
    return (
        f"{words} the host spent {milliseconds['launch']} in launches and other CUDA calls,"
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
