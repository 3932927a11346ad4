"""What the kernel must do, under Triton's interpreter: short contexts, long ones, shared heads, and what must not be read."""

import math
from collections.abc import Iterator
from typing import Any

from minivllm.lessons.exercises.behaviour import behaviour
from minivllm.lessons.exercises.draw import Draw

Case = dict[str, Any]


def nearly(expected: str, told: str) -> bool:
    """The words are equal, and so are the numbers after the bar but for rounding."""
    (words, _, numbers), (other_words, _, other_numbers) = expected.partition("|"), told.partition("|")
    try:
        pairs = list(zip(map(float, numbers.split()), map(float, other_numbers.split()), strict=True))
    except ValueError:
        return False
    return words == other_words and all(math.isclose(a, b, abs_tol=2e-3) for a, b in pairs)


def batch(draw: Draw, *, least: int, most: int, group: int, sizes: tuple[int, ...] = (16,)) -> Case:
    """Sequences with these lengths, over blocks in a scrambled order."""
    return {
        "seq_lens": draw.list_of(lambda d: d.integer(least, most), 1, 3),
        "num_kv_heads": draw.integer(1, 2),
        "group": draw.integer(1, group),
        "block_size": draw.choice([4, 2, 3, 16]),
        "head_size": draw.choice(sizes),
        "sharpness": draw.choice([1, 20]),
        "seed": draw.integer(0, 99),
    }


def _tell(case: Case) -> Iterator[str]:
    import torch

    from minivllm.kernels.decode_naive import decode_naive

    torch.set_num_threads(1)
    torch.manual_seed(case["seed"])
    size, heads, head_size = case["block_size"], case["num_kv_heads"], case["head_size"]
    lengths = case["seq_lens"]
    blocks = [-(-length // size) for length in lengths]
    free = torch.randperm(sum(blocks) + 2).tolist()
    # What lies behind a sequence's end is NaN, and behind its last entry stands an id that is no block.
    tables = torch.full((len(lengths), max(blocks) + 8), 1 << 20)
    key_cache, value_cache = torch.full((2, len(free), size, heads, head_size), torch.nan)
    query = case["sharpness"] * torch.randn(len(lengths), heads * case["group"], head_size)
    for row, length in enumerate(lengths):
        for position in range(length):
            if position % size == 0:
                tables[row, position // size] = free.pop()
            block = tables[row, position // size]
            key_cache[block, position % size], value_cache[block, position % size] = torch.randn(2, heads, head_size)
        if length == 0:
            query[row] = torch.nan
    out = decode_naive(query, key_cache, value_cache, tables, torch.tensor(lengths), head_size**-0.5)
    for row, length in enumerate(lengths):
        for head in range(query.shape[1]):
            numbers = " ".join(f"{value:.4f}" for value in out[row, head].tolist())
            yield f"sequence {row} of {length} tokens, head {head} of {query.shape[1]} ({heads} key heads) | {numbers}"


@behaviour(
    "a context that fits into one tile is attended to",
    task=1,
    points=3,
    hint="Which program has which sequence and head? Print the shapes: under the interpreter print works in a kernel.",
    cases=lambda draw: batch(draw, least=1, most=16, group=1),
    examples=12,
    agree=nearly,
)
def one_tile(case: Case) -> Iterator[str]:
    """Up to 16 tokens."""
    yield from _tell(case)


@behaviour(
    "tile after tile the softmax is that of the whole context",
    task=2,
    points=3,
    hint="A later tile has a larger score. What must happen to acc, and by which factor?",
    cases=lambda draw: batch(draw, least=17, most=40, group=1),
    examples=12,
    agree=nearly,
)
def several_tiles(case: Case) -> Iterator[str]:
    """Contexts of two and three tiles."""
    yield from _tell(case)


@behaviour(
    "query heads share key heads, and heads of any size are loaded",
    task=3,
    points=2,
    hint="Which key head serves query head 3 if a group has two? And what lies behind the last number of a head?",
    cases=lambda draw: batch(draw, least=1, most=20, group=3, sizes=(12, 16, 24)),
    examples=15,
    agree=nearly,
)
def shared_heads(case: Case) -> Iterator[str]:
    """Grouped queries."""
    yield from _tell(case)


@behaviour(
    "a padded row gives zeros",
    task=4,
    points=1,
    hint="A sequence of length 0 has no scores and its sum is 0. What is 0 / 0?",
    cases=lambda draw: batch(draw, least=0, most=2, group=2),
    examples=12,
    agree=nearly,
)
def padded_rows(case: Case) -> Iterator[str]:
    """Sequences of length 0 among others."""
    yield from _tell(case)
