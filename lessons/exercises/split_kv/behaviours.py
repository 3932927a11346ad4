"""What attention in parts must do: one part, merges with large scores, and whole contexts cut at random."""

import itertools
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
    return words == other_words and all(a == b or math.isclose(a, b, rel_tol=2e-4, abs_tol=2e-3) for a, b in pairs)


def _numbers(tensor: Any) -> str:
    return "| " + " ".join(f"{value:.4f}" for value in tensor.flatten().tolist())


def one_part(draw: Draw) -> Case:
    """Queries over one part of a context."""
    return {
        "batch": draw.integer(1, 2),
        "num_kv_heads": draw.integer(1, 2),
        "group": draw.integer(1, 3),
        "num_queries": draw.integer(1, 4),
        "num_tokens": draw.integer(1, 5),
        "size": draw.choice([1, 10, 60]),
        "half": draw.boolean(),
        "seed": draw.integer(0, 99),
    }


def _inputs(case: Case) -> tuple[Any, Any, Any]:
    import torch

    torch.set_num_threads(1)
    torch.manual_seed(case["seed"])
    dtype = torch.bfloat16 if case["half"] else torch.float32
    heads = case["num_kv_heads"]
    query = case["size"] * torch.randn(case["batch"], heads * case["group"], case["num_queries"], 4)
    key, value = torch.randn(2, case["batch"], heads, case["num_tokens"], 4)
    return query.to(dtype), key.to(dtype), value.to(dtype)


@behaviour(
    "a part's output and its log-sum-exp are right",
    task=1,
    points=3,
    hint="Which key head serves query head h, what is seen of the future, and of which numbers is the log-sum-exp taken?",
    cases=lambda draw: {**one_part(draw), "is_causal": draw.boolean(), "hidden": draw.integer(0, 2)},
    examples=50,
    agree=nearly,
)
def attends(case: Case) -> Iterator[str]:
    """Masks of all kinds, both dtypes."""
    import torch

    from minivllm.runtime.partial_attention import attend_in_steps

    query, key, value = _inputs(case)
    mask = None
    if case["hidden"] and case["num_tokens"] > case["hidden"]:
        mask = torch.zeros(case["batch"], 1, 1, case["num_tokens"], dtype=query.dtype)
        mask[-1, :, :, -case["hidden"] :] = -torch.inf
    # A causal part has as many queries as tokens.
    if case["is_causal"]:
        query = query[:, :, :1].repeat(1, 1, case["num_tokens"], 1)
    output, lse = attend_in_steps(query, key, value, 0.5, case["is_causal"], mask)
    yield f"output {output.dtype} {list(output.shape)}, log-sum-exp {lse.dtype} {list(lse.shape)}"
    for head in range(query.shape[1]):
        yield f"log-sum-exp of head {head} {_numbers(lse[:, head])}"
        yield f"output of head {head} {_numbers(output[:, head])}"


@behaviour(
    "two parts are merged by their weight, in place",
    task=3,
    points=3,
    hint="How much does the other part count against this one? Both the output and the log-sum-exp become those of the whole.",
    cases=lambda draw: {
        "rows": draw.choice(["slice", "indices"]),
        "mine": draw.list_of(lambda d: [d.integer(-4, 4), d.integer(-3, 3)], 3, 3),
        "other": draw.list_of(lambda d: [d.integer(-4, 4), d.integer(-3, 3)], 2, 2),
        "level": draw.choice([0, 150, -150, 5000]),
    },
    examples=60,
    agree=nearly,
)
def merges(case: Case) -> Iterator[str]:
    """Three rows, two of which are extended; scores may be large."""
    import torch

    from minivllm.runtime.partial_attention import merge

    output = torch.tensor([[[float(value)] * 2] for _, value in case["mine"]])
    lse = torch.tensor([[float(case["level"] + weight)] for weight, _ in case["mine"]])
    other = torch.tensor([[[float(value)] * 2] for _, value in case["other"]])
    other_lse = torch.tensor([[float(case["level"] + weight)] for weight, _ in case["other"]])
    rows = slice(1, 3) if case["rows"] == "slice" else torch.tensor([2, 0])
    merge(output, lse, rows, other, other_lse)
    yield f"outputs of {case} {_numbers(output)}"
    yield f"log-sum-exps {_numbers(lse)}"
    yield f"the other part, unchanged {_numbers(other)}"


@behaviour(
    "parts in any order and number give what the whole gives",
    task=4,
    points=3,
    hint="Merge a third part into two: does the log-sum-exp of the first two know of both?",
    cases=lambda draw: {
        **one_part(draw),
        "half": False,
        "num_queries": 1,
        "num_tokens": draw.integer(3, 9),
        "cuts": draw.list_of(lambda d: d.integer(1, 8), 1, 3),
        "backwards": draw.boolean(),
    },
    examples=50,
    agree=nearly,
)
def splits(case: Case) -> Iterator[str]:
    """A context cut into parts, which are attended to one by one and merged."""
    from minivllm.runtime.partial_attention import attend_in_steps, merge

    query, key, value = _inputs(case)
    ends = sorted({cut % case["num_tokens"] for cut in case["cuts"]} | {0, case["num_tokens"]})
    parts = list(itertools.pairwise(ends))
    if case["backwards"]:
        parts.reverse()
    output = lse = None
    for first, end in parts:
        out, part_lse = attend_in_steps(query, key[:, :, first:end], value[:, :, first:end], 0.5)
        out, part_lse = out[:, :, 0].clone(), part_lse[:, :, 0].clone()
        if output is None:
            output, lse = out, part_lse
        else:
            merge(output, lse, slice(0, len(output)), out, part_lse)
        yield f"with tokens {first} to {end - 1}: output {_numbers(output)}"
        yield f"log-sum-exp {_numbers(lse)}"
