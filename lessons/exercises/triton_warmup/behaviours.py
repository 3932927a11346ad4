"""Checks for triton-warmup: results, what is overwritten, and the addresses that are read.

All tensors are parts of larger ones, with more than a chunk of room around them. So a kernel without
masks changes the room, which is checked, and not the memory of the process.
"""

from typing import Any

import torch

from minivllm import lessons
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.lessons.exercises.paged_attention_triton.loads import recorded_loads

ROOM = 16
"""Numbers around each tensor; two chunks."""
MARK = -77.0
close = nearly(1e-5)


def _matrix(draw: Draw, *, most_columns: int, room: bool) -> Case:
    return {
        "rows": draw.integer(1, 4),
        "columns": draw.integer(1, most_columns),
        "x_room": draw.integer(1, 9) if room else 0,
        "out_room": draw.integer(1, 9) if room else 0,
    }


def _padded(rows: int, columns: int, between: int) -> tuple[Any, Any]:
    """A tensor of marks, and the part of it with `rows` rows that are `between` numbers apart."""
    stride = columns + between
    whole = torch.full((2 * ROOM + (rows + 1) * stride + ROOM * rows,), MARK)
    return whole, whole.as_strided((rows, columns), (stride, 1), ROOM)


def _inputs(case: Case) -> tuple[Any, Any, Any, Any]:
    """Return x, factors, out and the tensor around out."""
    torch.set_num_threads(1)
    rows, columns = case["rows"], case["columns"]
    _, x = _padded(rows, columns, case["x_room"])
    x.copy_(torch.arange(1.0, rows * columns + 1).view(rows, columns))
    factors = torch.full((rows + 4 * ROOM,), MARK)[:rows]
    factors.copy_(torch.tensor([2.0, 10.0, 0.5, 3.0][:rows]))
    whole, out = _padded(rows, columns, case["out_room"])
    return x, factors, out, whole


def _results(case: Case) -> Lines:
    x, factors, out, whole = _inputs(case)
    lessons.scale_rows(x, factors, out)
    what = f"{case['rows']} rows of {case['columns']} columns"
    strides = f"strides {x.stride(0)} and {out.stride(0)}"
    for row in range(case["rows"]):
        numbers = " ".join(f"{value:.5f}" for value in out[row].tolist())
        yield f"{what}, {strides}: row {row}, factor {factors[row]:g} | {numbers}"
    out.fill_(MARK)
    changed = int((whole != MARK).sum())
    yield f"{what}, {strides}: numbers changed outside of `out`: {changed}"


@behaviour(
    task=1, cases=lambda draw: _matrix(draw, most_columns=8, room=False), examples=20, agree=close
)
def one_chunk(case: Case) -> Lines:
    """a row that fits into one program is multiplied by its factor

    Which row is this program's, where does the row begin, and where is its factor?
    """
    yield from _results(case)


@behaviour(
    task=2, cases=lambda draw: _matrix(draw, most_columns=30, room=False), examples=25, agree=close
)
def several_chunks(case: Case) -> Lines:
    """rows of several chunks are computed to their end, and not further

    Which columns has the second program of a row? How many programs does a row need?
    """
    yield from _results(case)


@behaviour(
    task=1,
    cases=lambda draw: {**_matrix(draw, most_columns=12, room=True), "rows": draw.integer(2, 4)},
    examples=25,
    agree=close,
)
def strides(case: Case) -> Lines:
    """rows begin where the strides say

    The rows of x are farther apart than they are long, and those of out differ again.
    """
    yield from _results(case)


@behaviour(task=3, cases=lambda draw: _matrix(draw, most_columns=20, room=True), examples=15)
def reads(case: Case) -> Lines:
    """each number is read by one program, which reads nothing foreign

    A number that is read and then not stored was read all the same. Which loads have a mask?
    """
    # The addresses of all loads, for each program.
    x, factors, out, _ = _inputs(case)
    with recorded_loads() as loads:
        lessons.scale_rows(x, factors, out)
    for row in range(case["rows"]):
        factor = factors[row].data_ptr()
        numbers = [x[row, column].data_ptr() for column in range(case["columns"])]
        readers = [read for program, read in loads.addresses.items() if program[0] == row]
        foreign = set().union(*readers) - {*numbers, factor}
        often = [sum(number in read for read in readers) for number in numbers]
        yield (
            f"row {row} of {case['columns']} columns: its programs read"
            f" {'foreign addresses' if foreign else 'nothing foreign'};"
            f" how many of them read each number: {often}"
        )
