"""The regions about kernels alone: the ladder of decode kernels, and all other kernels."""

from typing import Any

from region_text import MissingError, Stage, measured_on, microseconds, table

LADDER_AT = (64, 4096)
"""Batch and context in the table of kernel versions. The goals are for this shape."""
LESSON_AT = (LADDER_AT, (1, 16384))
"""Shapes in lesson 18: a full batch, and a single long sequence, with which splits matter."""
GOALS = {"split": "85 %", "static": "85 %"}
PREFILL_GOAL_AT = (1, 4096)
PREFILL_GOAL = "at least 60 %"
PREFILL_PEER = "sdpa (gathered)"
OPTIONAL_PEERS = {"decode": ("FlashInfer",)}
"""Kernel -> peers that are left out if they are not installed, as prefixes of row names."""
SHAPE = "16 query heads, 8 key heads, head size 128, blocks of 16, bfloat16"


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
        "of the copy's speed",
        "speed against the row before",
        "µs, each of 28 in a row",
        "goal",
    ]
    batch, context = LADDER_AT
    read = next((row["gb_per_s"] for row in kernels["rows"] if row["key"] == "device/read"), None)
    reads = f" and reads {read:,.0f} GB/s" if read is not None else ""
    return "\n\n".join(
        [
            (
                f"{measured_on(kernels)} {batch} sequences of {context:,} tokens ({SHAPE}). The"
                f" device copies {copy:,.0f} GB/s{reads}. Medians of {_num_runs(kernels)} runs."
            ),
            table(columns, lines),
            "Microseconds for each shape (sequences x tokens of context):",
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
                "Microseconds for each shape (sequences x tokens): whole prompts, and a chunk of"
                " a prompt beside 63 decodes (`+`):"
            ),
            _matrix(rows),
            *_speed_of_peer(kernels),
            table(["kernel", "size", "µs", "GB/s", "of the copy's speed"], small),
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
        f"Speed relative to {PREFILL_PEER} at {batch} x {context:,} (goal: {PREFILL_GOAL}):"
        f" {', '.join(shares)}."
    ]


def _num_runs(stage: Stage) -> int:
    return min(len(row["runs"]) for row in stage["rows"] if "runs" in row)
