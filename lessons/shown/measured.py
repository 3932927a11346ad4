"""Kernel speeds on a GPU for lesson 18: rows of docs/measured/gpu/kernels.json at two shapes."""

import json
from functools import cache
from importlib.resources import files
from typing import Any

from minivllm.lessons.shown.roofline import Point

OPERATIONS_PER_BYTE = 2.0
"""Two query heads share a key head there: 4 operations for each number of 2 bytes."""
NUM_POINTS = 3
"""In the roofline; versions 4 and 5 would be at the same place as 3."""


@cache
def measured_kernels() -> dict[str, Any]:
    """The device, and for each shape (`batch`, `context`) the kernel versions: the time of a launch
    in microseconds, alone and in a row of 28, the bytes per second, and their share of a copy's."""
    return json.loads(files(__package__).joinpath("measured_kernels.json").read_bytes())


def in_words() -> str:
    ladders, said, shares = measured_kernels()["ladders"], "", []
    for one in ladders:
        speeds = [f"`{it['name']}` {it['microseconds']:,.0f}" for it in one["versions"]]
        sequences = "sequence" if one["batch"] == 1 else "sequences"
        said += (
            f" **{one['batch']} {sequences} of {one['context']:,} tokens**: {', '.join(speeds)}."
        )
        shares.append(f"{max(it['share_of_copy'] for it in one['versions']):.0%}")
    # A CUDA graph saves no time on the device, but Python's time between launches.
    row = {it["name"]: it["microseconds_in_a_row"] for it in ladders[-1]["versions"]}
    return (
        f"On an {measured_kernels()['device']}, in microseconds.{said} The best reach"
        f" {' and '.join(shares)} of copying speed. In a row, `split` takes {row['split']:,.0f} (the"
        f" GPU waits for Python), `static` {row['static']:,.0f}."
    )


def points() -> list[Point]:
    """The first kernel versions at the last shape, numbered as in the lesson."""
    versions = measured_kernels()["ladders"][-1]["versions"][:NUM_POINTS]
    return [
        Point(str(number), OPERATIONS_PER_BYTE, OPERATIONS_PER_BYTE * one["gb_per_s"] * 1e9)
        for number, one in enumerate(versions, 1)
    ]
