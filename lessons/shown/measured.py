"""Kernel speeds on a GPU for lesson 18: rows of docs/measured/gpu/kernels.json at two shapes."""

from importlib.resources import files

import msgspec

from minivllm.lessons.shown.roofline import Point

FILE = "measured_kernels.json"
MOST_SHOWN = 5
"""Maximum number of kernel versions on a page, which has room for few words."""


NUM_POINTS = 3
"""In the roofline; versions 4 and 5 would be at the same place as 3."""


class MeasuredKernel(msgspec.Struct):
    name: str
    microseconds: float
    gb_per_s: float
    """Keys and values read, over the time."""
    share_of_copy: float
    """Memory speed of the kernel, as a fraction of the speed of a plain copy on the device."""
    microseconds_in_a_row: float
    """Time per launch if 28 launches follow each other without pauses."""


class MeasuredLadder(msgspec.Struct):
    batch: int
    context: int
    versions: list[MeasuredKernel]


OPERATIONS_PER_BYTE = 2.0
"""Two query heads share a key head there: 4 operations for each number of 2 bytes."""


class MeasuredKernels(msgspec.Struct):
    device: str
    date: str
    ladders: list[MeasuredLadder]


def measured_kernels() -> MeasuredKernels | None:
    """The measurements; None if no GPU report was made yet."""
    file = files(__package__).joinpath(FILE)
    return msgspec.json.decode(file.read_bytes(), type=MeasuredKernels) if file.is_file() else None


def in_words(measured: MeasuredKernels) -> str:
    ladders = " ".join(
        f"{_shape(one)}: {', '.join(map(_speed, one.versions[:MOST_SHOWN]))}."
        for one in measured.ladders
    )
    return (
        f"On an {measured.device}, in microseconds. {ladders} {_best_share(measured)}"
        f" {_in_a_row(measured)}".rstrip()
    )


def points(measured: MeasuredKernels) -> list[Point]:
    """The first kernel versions at the last shape, numbered as in the lesson."""
    return [
        Point(str(number), OPERATIONS_PER_BYTE, OPERATIONS_PER_BYTE * version.gb_per_s * 1e9)
        for number, version in enumerate(measured.ladders[-1].versions[:NUM_POINTS], 1)
    ]


def _shape(ladder: MeasuredLadder) -> str:
    sequences = "sequence" if ladder.batch == 1 else "sequences"
    return f"**{ladder.batch} {sequences} of {ladder.context:,} tokens**"


def _speed(version: MeasuredKernel) -> str:
    return f"`{version.name}` {version.microseconds:,.0f}"


def _best_share(measured: MeasuredKernels) -> str:
    best = (max(one.share_of_copy for one in ladder.versions) for ladder in measured.ladders)
    return f"The best reach {' and '.join(f'{share:.0%}' for share in best)} of copying speed."


def _in_a_row(measured: MeasuredKernels) -> str:
    """What a CUDA graph saves: not time on the device, but Python's time between launches."""
    speeds = {
        version.name: version.microseconds_in_a_row for version in measured.ladders[-1].versions
    }
    if not {"split", "static"} <= speeds.keys():
        return ""
    return (
        f"In a row, `split` takes {speeds['split']:,.0f} (the GPU waits for Python), `static`"
        f" {speeds['static']:,.0f}."
    )
