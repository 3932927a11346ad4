"""Checks for top-p: small vocabularies with many ties, a long one, and the sampler.

The values of top_p are k / 997 or multiples of 1 / 4, so that every correct order of addition gives
the same answer.
"""

import torch

from minivllm.core.request import Request
from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour
from minivllm.runtime.sampling.logits_processors import to_weights
from minivllm.runtime.sampling.sampler import Sampler
from minivllm.sampling_params import SamplingParams


def _logit(draw: Draw) -> float:
    return draw.integer(0, 12) / 2


def small(draw: Draw, *which: str) -> Case:
    """One or two rows of a few logits, with these parameters drawn at random."""
    width = draw.integer(2, 8)
    kinds = {
        "temperature": lambda: draw.choice([1.0, 0.5, 2.0, 0.1, 0.001]),
        "min_p": lambda: draw.choice([0.3, 0.11, 0.02, 0.0, 1.0]),
        "top_k": lambda: draw.integer(0, 9),
        "top_p": lambda: draw.choice(
            [draw.integer(1, 996) / 997, draw.integer(500, 996) / 997, 0.5, 1.0]
        ),
    }
    rows = []
    for _ in range(draw.integer(1, 2)):
        logits = [_logit(draw) for _ in range(width)]
        rows.append({"logits": logits, **{name: kinds[name]() for name in which}})
    return {"rows": rows}


def _lines(case: Case) -> Lines:
    torch.set_num_threads(1)
    logits = torch.tensor([row["logits"] for row in case["rows"]])
    params = [
        SamplingParams(**{name: row[name] for name in row if name != "logits"})
        for row in case["rows"]
    ]
    before = logits.clone()
    weights = to_weights(logits, params)
    for row, wish in zip(weights, case["rows"], strict=True):
        asked = ", ".join(f"{name}={value:.4g}" for name, value in wish.items() if name != "logits")
        shares = [f"{share:.5f}" for share in (row / row.sum()).tolist()]
        yield (
            f"logits {wish['logits']}, {asked}: tokens {row.nonzero().flatten().tolist()} stay,"
            f" with shares {shares}"
        )
    yield f"the logits are unchanged: {torch.equal(before, logits)}"


@behaviour(task=1, cases=lambda draw: small(draw, "temperature"), examples=25)
def temperature(case: Case) -> Lines:
    """temperature flattens or sharpens, and nothing overflows

    After you subtract the best logit, what is the logit of the best token? When do you divide?
    """
    yield from _lines(case)


@behaviour(task=2, cases=lambda draw: small(draw, "temperature", "min_p"), examples=25)
def min_p(case: Case) -> Lines:
    """min-p compares every token with the best one

    The best token has weight 1 here. What is the smallest weight that another token may have?
    """
    yield from _lines(case)


@behaviour(task=3, cases=lambda draw: small(draw, "temperature", "top_p"), examples=50)
def top_p(case: Case) -> Lines:
    """the smallest set of best tokens that reaches top_p stays

    For each token: how much mass do the tokens before it have? Is that less than top_p of the mass?
    """
    yield from _lines(case)


@behaviour(
    task=3,
    cases=lambda draw: {
        "rows": [
            {
                "logits": [0.0] * draw.choice([2, 4, 8]) + [-60.0] * 3,
                "top_p": draw.choice([0.5, 0.25, 0.75]),
            }
        ]
    },
    examples=15,
)
def reaches_exactly(case: Case) -> Lines:
    """a set that reaches top_p exactly is large enough

    The tokens before this one have exactly top_p of the mass. Is this token still needed?
    """
    # Equal weights and halves or quarters, which are exact in any order of addition.
    yield from _lines(case)


@behaviour(task=4, cases=lambda draw: small(draw, "top_k", "top_p", "min_p"), examples=60)
def top_k(case: Case) -> Lines:
    """top-k comes first, top-p takes its part of the rest, and ties go to the lower ids

    How many tokens stay, which is the last of them, and how many more have the same logit?
    """
    yield from _lines(case)


@behaviour(
    task=3,
    cases=lambda draw: {
        "step": draw.integer(1, 40),
        "flatness": draw.integer(1, 6),
        "top_p": draw.integer(300, 996) / 997,
        "top_k": draw.choice([0, 40, 256, 300]),
    },
    examples=20,
)
def long_vocabulary(case: Case) -> Lines:
    """in a long vocabulary, the mass is not only that of the head

    The head shows the best 256 tokens. Is the sum of its weights the mass of the whole vocabulary?
    """
    # 700 tokens, with a distribution so flat that the nucleus may be longer than the head.
    torch.set_num_threads(1)
    logits = torch.tensor(
        [[(i * (2 * case["step"] + 1) % 701) / 100 / case["flatness"] for i in range(700)]]
    )
    weights = to_weights(logits, [SamplingParams(top_p=case["top_p"], top_k=case["top_k"])])[0]
    stay = weights.nonzero().flatten().tolist()
    yield f"{case}: {len(stay)} of 700 stay, the first {stay[:5]}, the last {stay[-5:]}"


@behaviour(
    task=5,
    cases=lambda draw: {
        **small(draw, "temperature", "top_k", "top_p", "min_p"),
        "seed": draw.integer(0, 99),
    },
    examples=25,
)
def samples(case: Case) -> Lines:
    """the sampler draws the same tokens

    The drawn tokens depend only on the weights and the seed. Which drawn token should have no
    weight?
    """
    torch.set_num_threads(1)
    sampler = Sampler(eos_token_ids=[])
    for number, row in enumerate(case["rows"]):
        asked = {name: value for name, value in row.items() if name != "logits"}
        params = SamplingParams(seed=case["seed"] + number, max_tokens=30, **asked)
        sequence = Request(f"r{number}", [1], params).sequences[0]
        for _ in range(20):
            sequence.append_token(sampler(torch.tensor([row["logits"]]), [sequence])[0].token_id)
        yield f"logits {row['logits']}, {asked}: {sequence.output_token_ids}"
