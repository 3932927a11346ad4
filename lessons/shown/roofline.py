"""The shortest possible time of a decode: the bytes that a pass must read, over the bandwidth.

A pass reads only one row of the embedding table per token, so the table does not count. But a table
that is also the last layer (a tied table) counts once, because the last layer reads all of it.

Below, the speeds of our kernels on a GPU, to compare with.
"""

import json
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from math import log2
from typing import Any, NamedTuple

from minivllm.runtime.model.model_config import ModelConfig


@dataclass(frozen=True, slots=True)
class Device:
    """The figures are from the manufacturer's data sheet."""

    name: str
    bytes_per_second: float
    operations_per_second: float
    """Dense bfloat16 matrix arithmetic; a multiplication and an addition are two operations."""
    num_processors: int

    @property
    def operations_per_byte(self) -> float:
        """Number of operations that the device could compute while it moves one byte."""
        return self.operations_per_second / self.bytes_per_second


H100 = Device("H100", bytes_per_second=3.35e12, operations_per_second=989e12, num_processors=132)
"""NVIDIA H100 SXM, 80 GB."""


def weights_per_pass(config: ModelConfig) -> int:
    """Number of weights that a pass reads. This does not depend on the pass's number of tokens."""
    hidden, heads, kv_heads = (
        config.hidden_size,
        config.num_attention_heads,
        config.num_key_value_heads,
    )
    attention = hidden * config.head_size * (2 * heads + 2 * kv_heads)
    mlp = 3 * hidden * config.intermediate_size
    return config.num_hidden_layers * (attention + mlp) + config.vocab_size * hidden


def operations_per_byte(num_tokens: int, bytes_per_weight: int) -> float:
    """Operations per byte of weights, if one pass computes this many tokens."""
    return 2 * num_tokens / bytes_per_weight


class Point(NamedTuple):
    """A kernel or a step under the roof."""

    sign: str
    """One character."""
    operations_per_byte: float
    operations_per_second: float


_ROWS, _COLUMNS_PER_OCTAVE = 6, 2
_FIRST_X, _LAST_X = -1, 10
_FIRST_Y, _LAST_Y = -4, 10
"""The ends of the axes, as powers of 2: operations per byte, trillion operations per second."""


def roofline(device: Device, points: list[Point]) -> tuple[str, ...]:
    """A roofline as rows of text: the most operations per second at each arithmetic intensity.

    Left of the ridge, memory is the limit: intensity times bandwidth. Right of it, arithmetic is.
    Both axes are logarithmic.
    """
    width = (_LAST_X - _FIRST_X) * _COLUMNS_PER_OCTAVE + 1
    cells = [[" "] * width for _ in range(_ROWS)]
    for x in range(width):
        bound = 2 ** (_FIRST_X + x / _COLUMNS_PER_OCTAVE) * device.bytes_per_second
        cells[_row(min(bound, device.operations_per_second))][x] = "·"
    for point in points:
        x = round((log2(point.operations_per_byte) - _FIRST_X) * _COLUMNS_PER_OCTAVE)
        cells[_row(point.operations_per_second)][min(max(x, 0), width - 1)] = point.sign
    names = {_row(trillions * 1e12): str(trillions) for trillions in (1000, 100, 10, 1)}
    names[_row(0.1e12)] = "0.1"
    rows = [
        f"{names.get(y, ''):>4} {'┤' if y in names else '│'}{''.join(cells[y])}".rstrip()
        for y in range(_ROWS)
    ]
    ticks = [" "] * (width + 3)
    for octave in range(0, _LAST_X + 1, 3):
        at = (octave - _FIRST_X) * _COLUMNS_PER_OCTAVE
        ticks[at : at + len(str(2**octave))] = str(2**octave)
    return (
        *rows,
        f"     └{'─' * width}",
        f"      {''.join(ticks)}".rstrip(),
        "→ operations/byte   ↑ trillion operations/s",
    )


def _row(operations_per_second: float) -> int:
    """The row of a value; row 0 is the top."""
    height = (log2(operations_per_second / 1e12) - _FIRST_Y) / (_LAST_Y - _FIRST_Y)
    return min(max(round((1 - height) * (_ROWS - 1)), 0), _ROWS - 1)


# ---- measured ----

OPERATIONS_PER_BYTE = 2.0
"""Two query heads share a key head there: 4 operations for each number of 2 bytes."""
NUM_POINTS = 3
"""In the roofline; versions 4 and 5 would be at the same place as 3."""


@cache
def measured_kernels() -> dict[str, Any]:
    """Kernel speeds on a GPU: rows of docs/measured/gpu/kernels.json at two shapes.

    For each version: the microseconds of a launch, alone and in a row of 28, the bytes per second,
    and their share of a copy's.
    """
    return json.loads(files(__package__).joinpath("measured_kernels.json").read_bytes())


def in_words() -> str:
    ladders, said, shares = measured_kernels()["ladders"], "", []
    for case in ladders:
        speeds = [f"`{it['name']}` {it['microseconds']:,.0f}" for it in case["versions"]]
        sequences = "sequence" if case["batch"] == 1 else "sequences"
        said += (
            f" **{case['batch']} {sequences} of {case['context']:,} tokens**: {', '.join(speeds)}."
        )
        shares.append(f"{max(it['share_of_copy'] for it in case['versions']):.0%}")
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
        Point(str(number), OPERATIONS_PER_BYTE, OPERATIONS_PER_BYTE * version["gb_per_s"] * 1e9)
        for number, version in enumerate(versions, 1)
    ]
