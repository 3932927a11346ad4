"""Checks for paged-attention-triton: results in Triton's interpreter, and the addresses read.

The interpreter is slow (milliseconds for a tile of one program), so there are few cases, each made
to show one mistake.
"""

import itertools
from typing import Any

import torch

from minivllm import kernels
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.lessons.exercises.paged_attention_triton.loads import recorded_loads

TILE = 16
close = nearly(2e-4, half=1e-2)
FLOATS = ("float32", "bfloat16")


def batch(
    draw: Draw,
    *,
    least: int,
    most: int,
    group: int,
    sizes: tuple[int, ...] = (16,),
    fewest: int = 1,
) -> Case:
    """Sequences over blocks in random order; about half of them end with a full tile."""
    exact = [length for length in range(0, most + 1, TILE) if length >= least]

    def length(draw: Draw) -> int:
        some = draw.integer(least, most)
        return draw.choice([some, draw.choice(exact)]) if exact else some

    return {
        "seq_lens": draw.list_of(length, fewest, 2),
        "num_kv_heads": draw.integer(1, 2),
        "group": draw.integer(1, group),
        "block_size": draw.choice([4, 2, 3, 16]),
        "head_size": draw.choice(sizes),
        "scale": draw.choice([1.0, 0.7]),
        "sharpness": draw.choice([1, 20]),
        "rises": draw.choice([0, 1, -1]),
        "dtypes": ["float32", "float32"],
        "query": "plain",
        "out": "none",
        "seed": draw.integer(0, 99),
    }


def _laid_out(tensor: Any, layout: str) -> Any:
    """Return the same numbers in another memory layout, with NaN around them.

    The layouts: contiguous, the first heads of wider rows, or head after head. There is room for
    every layout, so a kernel that assumes the wrong one reads NaN and not foreign memory.
    """
    rows, heads, size = tensor.shape
    strides = {
        "plain": (heads * size, size),
        "wider rows": (2 * heads * size, size),
        "head by head": (size, rows * size),
    }
    room = torch.full((4 * tensor.numel(),), torch.nan, dtype=tensor.dtype)
    return room.as_strided(tensor.shape, (*strides[layout], 1)).copy_(tensor)


def _inputs(case: Case) -> dict[str, Any]:
    """Return the arguments of `decode_naive`.

    Unused slots are NaN, and entries after a table's end are invalid block ids.
    """
    torch.set_num_threads(1)
    torch.manual_seed(case["seed"])
    size, heads, head_size, lengths = (
        case["block_size"],
        case["num_kv_heads"],
        case["head_size"],
        case["seq_lens"],
    )
    query_dtype, cache_dtype = (getattr(torch, name) for name in case["dtypes"])
    blocks = [-(-length // size) for length in lengths]
    free = torch.randperm(sum(blocks) + 2).tolist()
    # Wider than what is passed, as in the engine: keys and values share a tensor, and tables have
    # room for the longest sequence.
    tables = torch.full((len(lengths), max(blocks) + 8), 1 << 20)
    cache = torch.full((len(free), size, 2 * heads, head_size), torch.nan)
    direction = torch.randn(head_size)
    for row, length in enumerate(lengths):
        for position in range(length):
            if position % size == 0:
                tables[row, position // size] = free.pop()
            token = torch.randn(2 * heads, head_size)
            token[:heads] += case["rises"] * 0.1 * position * direction
            cache[tables[row, position // size], position % size] = token
    query = (
        case["sharpness"] * torch.randn(len(lengths), heads * case["group"], head_size) + direction
    )
    query[torch.tensor(lengths) == 0] = torch.nan
    out = (
        None if case["out"] == "none" else _laid_out(torch.full_like(query, torch.nan), case["out"])
    )
    cache = cache.to(cache_dtype)
    return {
        "query": _laid_out(query.to(query_dtype), case["query"]),
        "key_cache": cache[:, :, :heads],
        "value_cache": cache[:, :, heads:],
        "block_tables": tables[:, : max(blocks) + 5],
        "seq_lens": torch.tensor(lengths),
        "scale": case["scale"] * head_size**-0.5,
        "out": out,
    }


def _tell(case: Case) -> Lines:
    inputs = _inputs(case)
    out = kernels.decode_naive(**inputs)
    if inputs["out"] is not None:
        yield f"returns the given `out`: {out is inputs['out']}"
    for row, length in enumerate(case["seq_lens"]):
        for head in range(out.shape[1]):
            numbers = " ".join(f"{value:.5f}" for value in out[row, head].tolist())
            yield (
                f"sequence {row} of {length} tokens, head {head} of {out.shape[1]}"
                f" ({case['num_kv_heads']} key heads), {out.dtype} | {numbers}"
            )


@behaviour(
    task=2, cases=lambda draw: batch(draw, least=1, most=16, group=1), examples=8, agree=close
)
def one_tile(case: Case) -> Lines:
    """a context that fits into one tile gives the right output

    Which program has which sequence and head? Print the shapes: in the interpreter, print works
    inside a kernel.
    """
    yield from _tell(case)


@behaviour(
    task=2,
    cases=lambda draw: {**batch(draw, least=17, most=64, group=1), "num_kv_heads": 1},
    examples=10,
    agree=close,
)
def several_tiles(case: Case) -> Lines:
    """over several tiles, the softmax is that of the whole context

    A later tile has a larger score. What must happen to acc, and by which factor?
    """
    # Contexts of two to four tiles, with scores that rise or fall.
    yield from _tell(case)


@behaviour(
    task=3,
    cases=lambda draw: batch(draw, least=1, most=16, group=3, sizes=(12, 16, 24)),
    examples=10,
    agree=close,
)
def shared_heads(case: Case) -> Lines:
    """query heads share key heads, and heads of any size are loaded

    Which key head does query head 3 use if a group has two? And what is after the last number of a
    head?
    """
    yield from _tell(case)


@behaviour(
    task=1,
    cases=lambda draw: {
        # A single row would not show a wrong stride.
        **batch(draw, least=1, most=16, group=1, fewest=2),
        "dtypes": draw.choice([list(pair) for pair in itertools.product(FLOATS, repeat=2)]),
        "query": draw.choice(["plain", "wider rows", "head by head"]),
        "out": draw.choice(["plain", "wider rows", "head by head"]),
    },
    examples=14,
    agree=close,
)
def layouts(case: Case) -> Lines:
    """any strides and dtypes work, and only the result is rounded

    The strides of a tensor say where its rows begin; its shape does not. And which dtype do your
    sums have?
    """
    # Queries inside a larger tensor, an output that is passed in, and half precision.
    yield from _tell(case)


@behaviour(
    task=3, cases=lambda draw: batch(draw, least=0, most=20, group=2, sizes=(16, 12)), examples=8
)
def reads(case: Case) -> Lines:
    """a program reads only what belongs to it

    A key with weight 0 is still read. Which positions of a tile are real, and which numbers of a
    head?
    """
    # The addresses of all loads, for each program.
    inputs = _inputs(case)
    with recorded_loads() as loads:
        kernels.decode_naive(**inputs)
    yield from loads.strange(inputs)
    yield (
        f"{case['seq_lens']} tokens in blocks of {case['block_size']}, heads of"
        f" {case['head_size']}: no more foreign reads"
    )


@behaviour(
    task=4, cases=lambda draw: batch(draw, least=0, most=2, group=2), examples=8, agree=close
)
def padded_rows(case: Case) -> Lines:
    """a padded row gives zeros

    A sequence of length 0 has no scores, and its sum is 0. What is 0 / 0?
    """
    yield from _tell(case)
