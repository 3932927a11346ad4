"""What the kernel must do, under Triton's interpreter: short contexts, long ones, shared heads, and
what must not be read.

Interpreting is slow, a tile of a program takes milliseconds, so there are few cases; each of them
is made to show something.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from minivllm.lessons.checker.cases.behaviour import behaviour, nearly
from minivllm.lessons.checker.cases.draw import Draw
from minivllm.lessons.exercises.paged_attention_triton.loads import recorded_loads

Case = dict[str, Any]
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
    """Sequences with these lengths, every other of which ends with its tile, over blocks in a
    scrambled order.
    """
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
    """The same numbers alone in memory, as the first heads of wider rows, or head after head; NaN
    around them.

    There is room for whoever takes one layout for another: what is read or written then is NaN, and
    no stranger's memory.
    """
    import torch

    rows, heads, size = tensor.shape
    strides = {
        "plain": (heads * size, size),
        "wider rows": (2 * heads * size, size),
        "head by head": (size, rows * size),
    }
    room = torch.full((4 * tensor.numel(),), torch.nan, dtype=tensor.dtype)
    return room.as_strided(tensor.shape, (*strides[layout], 1)).copy_(tensor)


def _inputs(case: Case) -> dict[str, Any]:
    """The arguments of `decode_naive`. What is nobody's is NaN, and behind a table's last entry
    stands an id that is no block.
    """
    import torch

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
    # Wider than what is passed, as the engine's are: keys and values in one tensor, and tables for
    # the longest sequence.
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


def _tell(case: Case) -> Iterator[str]:
    from minivllm.kernels.attention.decode_naive import decode_naive

    inputs = _inputs(case)
    out = decode_naive(**inputs)
    if inputs["out"] is not None:
        yield f"what is returned is `out`: {out is inputs['out']}"
    for row, length in enumerate(case["seq_lens"]):
        for head in range(out.shape[1]):
            numbers = " ".join(f"{value:.5f}" for value in out[row, head].tolist())
            yield (
                f"sequence {row} of {length} tokens, head {head} of {out.shape[1]}"
                f" ({case['num_kv_heads']} key heads), {out.dtype} | {numbers}"
            )


@behaviour(
    "a context that fits into one tile is attended to",
    task=2,
    points=2,
    hint=(
        "Which program has which sequence and head? Print the shapes: under the interpreter print"
        " works in a kernel."
    ),
    cases=lambda draw: batch(draw, least=1, most=16, group=1),
    examples=8,
    agree=close,
)
def one_tile(case: Case) -> Iterator[str]:
    """Up to 16 tokens."""
    yield from _tell(case)


@behaviour(
    "tile after tile the softmax is that of the whole context",
    task=2,
    points=3,
    hint="A later tile has a larger score. What must happen to acc, and by which factor?",
    cases=lambda draw: {**batch(draw, least=17, most=64, group=1), "num_kv_heads": 1},
    examples=10,
    agree=close,
)
def several_tiles(case: Case) -> Iterator[str]:
    """Contexts of two to four tiles, scores that rise and scores that fall."""
    yield from _tell(case)


@behaviour(
    "query heads share key heads, and heads of any size are loaded",
    task=3,
    points=2,
    hint=(
        "Which key head serves query head 3 if a group has two? And what lies behind the last"
        " number of a head?"
    ),
    cases=lambda draw: batch(draw, least=1, most=16, group=3, sizes=(12, 16, 24)),
    examples=10,
    agree=close,
)
def shared_heads(case: Case) -> Iterator[str]:
    """Grouped queries."""
    yield from _tell(case)


@behaviour(
    "tensors are taken as they lie, in any dtype, and only the result is rounded",
    task=1,
    points=2,
    hint=(
        "A tensor's strides say where its rows begin, its shape does not. And what is summed up in"
        " which dtype?"
    ),
    cases=lambda draw: {
        **batch(draw, least=1, most=16, group=1, fewest=2),  # of a single row no stride is seen
        "dtypes": draw.choice([list(pair) for pair in itertools.product(FLOATS, repeat=2)]),
        "query": draw.choice(["plain", "wider rows", "head by head"]),
        "out": draw.choice(["plain", "wider rows", "head by head"]),
    },
    examples=14,
    agree=close,
)
def layouts(case: Case) -> Iterator[str]:
    """Queries that are a part of a larger tensor, an output that is given, half precision here and
    there.
    """
    yield from _tell(case)


@behaviour(
    "a program reads what is its own and nothing else",
    task=3,
    points=1,
    hint=(
        "Count what a tile loads: a weight of 0 does not unread a key. Which positions are real,"
        " and which numbers of a head?"
    ),
    cases=lambda draw: batch(draw, least=0, most=20, group=2, sizes=(16, 12)),
    examples=8,
)
def reads(case: Case) -> Iterator[str]:
    """The addresses of all loads, program by program."""
    from minivllm.kernels.attention.decode_naive import decode_naive

    inputs = _inputs(case)
    with recorded_loads() as loads:
        decode_naive(**inputs)
    yield from loads.strange(inputs)
    yield (
        f"{case['seq_lens']} tokens in blocks of {case['block_size']}, heads of"
        f" {case['head_size']}: all is read"
    )


@behaviour(
    "a padded row gives zeros",
    task=4,
    points=1,
    hint="A sequence of length 0 has no scores and its sum is 0. What is 0 / 0?",
    cases=lambda draw: batch(draw, least=0, most=2, group=2),
    examples=8,
    agree=close,
)
def padded_rows(case: Case) -> Iterator[str]:
    """Sequences of length 0 among others."""
    yield from _tell(case)
