"""What lesson 12 shows of the kernels' speed on a GPU: written into the package by `tools/gpu_report/tables.py`.

There is such a file only once somebody has made a GPU report. Nothing is measured here.
"""

from importlib.resources import files

import msgspec

FILE = "measured_rungs.json"
MOST_SHOWN = 5
"""Rungs on one page, which has room for few words."""


class MeasuredRung(msgspec.Struct):
    """One kernel of the ladder."""

    name: str
    microseconds: float
    gb_per_s: float
    share_of_copy: float
    """Of the device's own copying speed, 1 for all of it."""
    microseconds_in_a_row: float
    """Of one launch among 28 without a pause."""


class MeasuredRungs(msgspec.Struct):
    """The ladder on one device, at one shape."""

    device: str
    date: str
    batch: int
    context: int
    copy_gb_per_s: float
    rungs: list[MeasuredRung]


def measured_rungs() -> MeasuredRungs | None:
    """The measured ladder; None if nobody has measured it yet."""
    file = files("minivllm.lessons").joinpath(FILE)
    return msgspec.json.decode(file.read_bytes(), type=MeasuredRungs) if file.is_file() else None


def in_words(measured: MeasuredRungs) -> str:
    """A page of the lesson."""
    rungs = "; ".join(
        f"`{rung.name}` **{rung.microseconds:,.0f}** µs, {rung.share_of_copy:.0%}"
        for rung in measured.rungs[:MOST_SHOWN]
    )
    return (
        f"Measured on an {measured.device}, {measured.date}: {measured.batch} sequences of {measured.context:,} tokens, in microseconds and as a "
        f"share of the device's copying speed ({measured.copy_gb_per_s:,.0f} GB/s). {rungs}."
    )
