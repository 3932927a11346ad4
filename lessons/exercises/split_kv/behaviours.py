"""Checks for split-kv: one part, merges with large scores, and contexts cut at random places."""

import itertools
from typing import Any

import torch

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.runtime.attention.partial import attend_in_steps, merge


def _numbers(tensor: Any) -> str:
    return "| " + " ".join(f"{value:.5f}" for value in tensor.flatten().tolist())


close = nearly(2e-4, half=8e-3)  # bfloat16 is rounded once, so it may be off by one step


def one_part(draw: Draw) -> Case:
    """Queries over one part of a context."""
    return {
        "batch": draw.integer(1, 2),
        "num_kv_heads": draw.integer(1, 2),
        "group": draw.integer(1, 3),
        "num_queries": draw.integer(1, 4),
        "num_tokens": draw.integer(1, 5),
        "size": draw.choice([1, 10, 60]),
        "scale": draw.choice([0.5, 1.0, 0.25]),
        "dtypes": ["float32", "float32"],
        "tokens_first": draw.boolean(),
        "seed": draw.integer(0, 99),
    }


def _inputs(case: Case) -> tuple[Any, Any, Any]:
    """Return queries, keys and values; with `tokens_first` they are not contiguous."""
    torch.set_num_threads(1)
    torch.manual_seed(case["seed"])
    query_dtype, cache_dtype = (getattr(torch, name) for name in case["dtypes"])
    heads = case["num_kv_heads"]
    query = case["size"] * torch.randn(case["batch"], heads * case["group"], case["num_queries"], 4)
    key_value = torch.randn(case["batch"], 2 * heads, case["num_tokens"], 4)
    if case["tokens_first"]:
        query, key_value = (
            x.transpose(1, 2).contiguous().transpose(1, 2) for x in (query, key_value)
        )
    key_value = key_value.to(cache_dtype)
    return query.to(query_dtype), key_value[:, :heads], key_value[:, heads:]


def _mask(case: Case, dtype: Any) -> Any:
    """Return a mask, [batch, 1, 1, num_tokens], that never hides the first token, or None."""
    if case["mask"] == "none":
        return None
    mask = -torch.randint(0, 6, (case["batch"], 1, 1, case["num_tokens"])) / 2
    if case["mask"] == "hides":
        mask = torch.where(mask < -1.0, -torch.inf, 0.0)
    mask[..., 0] = mask[..., 0].clamp(min=-2.0)
    return mask.to(dtype)


@behaviour(
    task=1,
    cases=lambda draw: {
        **one_part(draw),
        "is_causal": draw.boolean(),
        "mask": draw.choice(["none", "hides", "adds"]),
        "dtypes": draw.choice(list(itertools.product(("float32", "bfloat16"), repeat=2))),
    },
    examples=80,
    agree=close,
)
def attends(case: Case) -> Lines:
    """the output and the log-sum-exp of a part are right

    Which key head does query head h use, which tokens are in the future, and of which numbers is
    the log-sum-exp taken?
    """
    # All kinds of masks, both dtypes, more and fewer queries than tokens.
    query, key, value = _inputs(case)
    mask = _mask(case, query.dtype)
    output, lse = attend_in_steps(query, key, value, case["scale"], case["is_causal"], mask)
    yield f"output {output.dtype} {list(output.shape)}, log-sum-exp {lse.dtype} {list(lse.shape)}"
    for head in range(query.shape[1]):
        yield f"log-sum-exp of head {head} {_numbers(lse[:, head])}"
        yield f"output of head {head}, {output.dtype} {_numbers(output[:, head])}"


def _row(draw: Draw) -> list[list[int]]:
    """For each of two heads: a part's log-sum-exp and its output."""
    return [[draw.integer(-4, 4), draw.integer(-30, 30)] for _ in range(2)]


@behaviour(
    task=3,
    cases=lambda draw: {
        "rows": draw.choice(["slice", "indices"]),
        "dtype": draw.choice(["float32", "bfloat16"]),
        "mine": draw.list_of(_row, 3, 3),
        "other": draw.list_of(_row, 2, 2),
        "levels": draw.list_of(lambda d: d.choice([0, 150, -150, 400]), 3, 3),
        "gap": draw.choice([0, 0, 0, 120, -120]),
    },
    examples=80,
    agree=close,
)
def merges(case: Case) -> Lines:
    """two parts are merged by their weight, in place

    How much weight does the other part have, compared with this one? The output and the log-sum-exp
    both become those of the whole.
    """
    # Merge into two of three rows; scores can be large, one part much heavier than the other.
    dtype = getattr(torch, case["dtype"])
    rows = slice(1, 3) if case["rows"] == "slice" else torch.tensor([2, 0])
    levels = torch.tensor(case["levels"], dtype=torch.float32).unsqueeze(1)
    mine, other = (
        torch.tensor(case["mine"]).float(),
        torch.tensor(case["other"]).float(),
    )  # [rows, heads, (weight, value)]
    output, other_output = (
        torch.stack((x[..., 1], 1 - x[..., 1]), dim=-1).to(dtype) for x in (mine, other)
    )
    lse, other_lse = mine[..., 0] + levels, other[..., 0] + levels[rows] + case["gap"]
    merge(output, lse, rows, other_output, other_lse)
    yield f"outputs of {case} {_numbers(output)}"
    yield f"log-sum-exps {_numbers(lse)}"
    yield f"the other part, unchanged {_numbers(other_output)} {_numbers(other_lse)[1:]}"


@behaviour(
    task=4,
    cases=lambda draw: {
        **one_part(draw),
        "num_queries": 1,
        "num_tokens": draw.integer(3, 9),
        "cuts": draw.list_of(lambda d: d.integer(1, 8), 1, 3),
        "backwards": draw.boolean(),
    },
    examples=50,
    agree=close,
)
def splits(case: Case) -> Lines:
    """any number of parts, in any order, gives the result of the whole

    Merge a third part into two. Does the log-sum-exp of the first two include both?
    """
    # A context is cut into parts; attend to each and merge the results.
    query, key, value = _inputs(case)
    ends = sorted({cut % case["num_tokens"] for cut in case["cuts"]} | {0, case["num_tokens"]})
    parts = list(itertools.pairwise(ends))
    if case["backwards"]:
        parts.reverse()
    output = lse = None
    for first, end in parts:
        out, part_lse = attend_in_steps(
            query, key[:, :, first:end], value[:, :, first:end], case["scale"]
        )
        out, part_lse = out[:, :, 0].clone(), part_lse[:, :, 0].clone()
        if output is None:
            output, lse = out, part_lse
        else:
            merge(output, lse, slice(0, len(output)), out, part_lse)
        yield f"with tokens {first} to {end - 1}: output {_numbers(output)}"
        yield f"log-sum-exp {_numbers(lse)}"
