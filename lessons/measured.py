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


class MeasuredLadder(msgspec.Struct):
    """All kernels at one shape."""

    batch: int
    context: int
    rungs: list[MeasuredRung]


class MeasuredRungs(msgspec.Struct):
    """The ladder on one device."""

    device: str
    date: str
    copy_gb_per_s: float
    ladders: list[MeasuredLadder]


def measured_rungs() -> MeasuredRungs | None:
    """The measured ladder; None if nobody has measured it yet."""
    file = files("minivllm.lessons").joinpath(FILE)
    return msgspec.json.decode(file.read_bytes(), type=MeasuredRungs) if file.is_file() else None


def in_words(measured: MeasuredRungs) -> str:
    """A page of the lesson."""
    ladders = " ".join(f"{_shape(one)}: {', '.join(map(_speed, one.rungs[:MOST_SHOWN]))}." for one in measured.ladders)
    return f"Measured on an {measured.device}, {measured.date}, in microseconds. {ladders} {_best_share(measured)}"


def _shape(ladder: MeasuredLadder) -> str:
    sequences = "sequence" if ladder.batch == 1 else "sequences"
    return f"**{ladder.batch} {sequences} of {ladder.context:,} tokens**"


def _speed(rung: MeasuredRung) -> str:
    return f"`{rung.name}` {rung.microseconds:,.0f}"


def _best_share(measured: MeasuredRungs) -> str:
    best = max((rung for ladder in measured.ladders for rung in ladder.rungs), key=lambda rung: rung.share_of_copy)
    return f"The best, `{best.name}`, reads at {best.share_of_copy:.0%} of the speed at which the device copies ({measured.copy_gb_per_s:,.0f} GB/s)."
