"""Checks for experts: a router with random weights, and experts that note which tokens they get.

Scores are random, so no two of them tie.
"""

from typing import Any

import torch
from torch import nn

from minivllm.lessons.checker.cases.behaviour import Case, Draw, Lines, behaviour, nearly
from minivllm.runtime.model import decoder
from minivllm.runtime.model.custom_ops import TORCH_OPS
from minivllm.runtime.model.model_config import ModelConfig

HIDDEN, WIDE = 8, 2048
close = nearly(1e-5)


def _layer(draw: Draw, *, norm: bool = False) -> Case:
    num_experts = draw.integer(2, 6)
    return {
        "num_tokens": draw.integer(1, 7),
        "num_experts": num_experts,
        "top_k": draw.integer(1, num_experts),
        "norm": norm,
        "seed": draw.integer(0, 999),
    }


def _mixture(case: Case, hidden: int = HIDDEN) -> tuple[Any, torch.Tensor]:
    """Return a layer's experts, and the tokens' rows."""
    torch.set_num_threads(1)
    torch.manual_seed(case["seed"])
    config = ModelConfig.from_hf_dict(
        {
            "architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "vocab_size": 8,
            "hidden_size": hidden, "intermediate_size": 8, "num_hidden_layers": 1,
            "num_attention_heads": 1, "num_key_value_heads": 1, "head_dim": 8,
            "max_position_embeddings": 64, "num_experts": case["num_experts"],
            "num_experts_per_tok": case["top_k"], "norm_topk_prob": case["norm"],
        }
    )  # fmt: skip
    layer = decoder.Experts(config)
    layer.gate.weight = nn.Parameter(torch.randn(case["num_experts"], hidden), requires_grad=False)
    return layer, torch.randn(case["num_tokens"], hidden)


def _numbers(row: torch.Tensor) -> str:
    return "| " + " ".join(f"{number:.6f}" for number in row.tolist())


def _tell_routes(shares: torch.Tensor, experts: torch.Tensor) -> Lines:
    for row, (share, chosen) in enumerate(zip(shares, experts, strict=True)):
        yield f"token {row} takes experts {chosen.tolist()} with shares {_numbers(share)}"


@behaviour(task=1, cases=_layer, examples=30, agree=close)
def routes(case: Case) -> Lines:
    """a token takes the experts with the largest scores

    Softmax over all experts comes first, then the choice. Do shares and experts have one order?
    """
    layer, x = _mixture(case)
    yield from _tell_routes(*layer.gate(x))


@behaviour(task=2, cases=lambda draw: _layer(draw, norm=True), examples=20, agree=close)
def normalizes(case: Case) -> Lines:
    """with norm_topk_prob, the shares of a token have a sum of 1

    Add the shares of the chosen experts. What must each be divided by?
    """
    layer, x = _mixture(case)
    yield from _tell_routes(*layer.gate(x))


@behaviour(task=3, cases=_layer, examples=20, agree=nearly(0.02))
def in_float32(case: Case) -> Lines:
    """scores are computed in float32, also for a model in bfloat16

    A bfloat16 has about three digits. Convert both sides before you multiply.
    """
    layer, x = _mixture(case, WIDE)
    layer.gate.weight.data = layer.gate.weight.bfloat16()
    shares, experts = layer.gate(x.bfloat16())
    yield f"shares are {shares.dtype}"
    yield from _tell_routes(shares, experts)


@behaviour(
    task=3, cases=lambda draw: {**_layer(draw), "num_tokens": 16 + draw.integer(1, 9)}, examples=20
)
def row_by_row(case: Case) -> Lines:
    """a token has exactly the same shares in every batch

    Compute the row of a token alone, and in a batch. Is the last bit the same?
    """
    layer, x = _mixture(case, WIDE)
    shares, _ = layer.gate(x)
    same = [
        torch.equal(layer.gate(row[None])[0][0], own) for row, own in zip(x, shares, strict=True)
    ]
    yield f"{len(x)} tokens; alone, each has the shares of the batch: {all(same)}"


class _Noted(nn.Module):
    """An expert that multiplies by its number, and notes its tokens: their last elements."""

    def __init__(self, number: int, calls: list[tuple[int, list[int]]]) -> None:
        super().__init__()
        self._number, self._calls = number, calls

    def forward(self, x: torch.Tensor, ops: Any) -> torch.Tensor:
        self._calls.append((self._number, sorted(int(row) for row in x[:, -1].tolist())))
        return x * (self._number + 1)


def _run(case: Case) -> tuple[torch.Tensor, list[tuple[int, list[int]]], bool]:
    layer, x = _mixture(case)
    calls: list[tuple[int, list[int]]] = []
    layer.experts = nn.ModuleList(_Noted(number, calls) for number in range(case["num_experts"]))
    x[:, -1] = torch.arange(len(x))
    given = x.clone()
    return layer(x, TORCH_OPS), calls, torch.equal(x, given)


@behaviour(task=4, cases=_layer, examples=30, agree=close)
def sums(case: Case) -> Lines:
    """a token gets the sum of its experts' results, each times its share

    Which token does a pair belong to? Its result must be in that token's sum.
    """
    output, _, unchanged = _run(case)
    for row, numbers in enumerate(output):
        yield f"token {row} becomes {_numbers(numbers)}"
    yield f"x is unchanged: {unchanged}"


@behaviour(task=5, cases=_layer, examples=30)
def once(case: Case) -> Lines:
    """an expert runs once for all its tokens, and not without one

    How often does your code read the weights of an expert that three tokens have chosen?
    """
    _, calls, _ = _run(case)
    for number, tokens in sorted(calls):
        yield f"expert {number} runs with tokens {tokens}"
