"""Kernel speeds on a GPU for lesson 12, from a file that `tools/gpu_report/tables.py` writes.

The file exists only after a GPU report was made.
"""

from importlib.resources import files

import msgspec

FILE = "measured_rungs.json"
MOST_SHOWN = 5
"""Maximum number of kernel versions on a page, which has room for few words."""


class MeasuredRung(msgspec.Struct):
    name: str
    microseconds: float
    share_of_copy: float
    """Memory speed of the kernel, as a fraction of the speed of a plain copy on the device."""
    microseconds_in_a_row: float
    """Time per launch if 28 launches follow each other without pauses."""


class MeasuredLadder(msgspec.Struct):
    batch: int
    context: int
    rungs: list[MeasuredRung]


class MeasuredRungs(msgspec.Struct):
    device: str
    date: str
    ladders: list[MeasuredLadder]


def measured_rungs() -> MeasuredRungs | None:
    """The measurements; None if no GPU report was made yet."""
    file = files(__package__).joinpath(FILE)
    return msgspec.json.decode(file.read_bytes(), type=MeasuredRungs) if file.is_file() else None


def in_words(measured: MeasuredRungs) -> str:
    ladders = " ".join(
        f"{_shape(one)}: {', '.join(map(_speed, one.rungs[:MOST_SHOWN]))}."
        for one in measured.ladders
    )
    return (
        f"On an {measured.device}, in microseconds. {ladders} {_best_share(measured)}"
        f" {_in_a_row(measured)}".rstrip()
    )


def _shape(ladder: MeasuredLadder) -> str:
    sequences = "sequence" if ladder.batch == 1 else "sequences"
    return f"**{ladder.batch} {sequences} of {ladder.context:,} tokens**"


def _speed(rung: MeasuredRung) -> str:
    return f"`{rung.name}` {rung.microseconds:,.0f}"


def _best_share(measured: MeasuredRungs) -> str:
    best = max(rung.share_of_copy for ladder in measured.ladders for rung in ladder.rungs)
    return f"The best version reaches {best:.0%} of copying speed."


def _in_a_row(measured: MeasuredRungs) -> str:
    """What a CUDA graph saves: not time on the device, but Python's time between launches."""
    speeds = {rung.name: rung.microseconds_in_a_row for rung in measured.ladders[-1].rungs}
    if not {"split", "static"} <= speeds.keys():
        return ""
    return (
        f"Launched in a row: {speeds['split']:,.0f} each for `split`, {speeds['static']:,.0f} for"
        " `static` as a graph."
    )
