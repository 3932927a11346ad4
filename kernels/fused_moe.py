"""A mixture of experts: each product of all experts in one launch, over tokens sorted by expert.

A program multiplies a block of pairs of token and expert by some outputs of one expert. So the
pairs are sorted by expert, and each expert's pairs are padded to whole blocks. Nothing waits for
the router: there are as many blocks as there can be, and a program without an expert does nothing.

Source: vLLM `vllm/model_executor/layers/fused_moe/{fused_moe,moe_align_block_size}.py`.
"""

from typing import Any, NamedTuple

import torch

from minivllm.kernels.mode import tl, triton
from minivllm.kernels.norm_act import silu_and_mul

FEW_ROWS, MANY_ROWS = 16, 64
"""Rows of a block: few for decodes, where an expert has a handful of tokens."""
OUTPUTS, INPUTS = 64, 64
"""How many outputs a program computes, and how many inputs it loads at once."""


class SortedPairs(NamedTuple):
    """Pairs of token and expert; pair // top_k is the token."""

    sorted_ids: torch.Tensor  # at least [num_blocks * block_size]
    expert_ids: torch.Tensor  # [num_blocks]
    num_pairs: int
    block_size: int


def moe_align_block_size(experts: torch.Tensor, num_experts: int, block_size: int) -> SortedPairs:
    """Sort the pairs of `experts: [num_tokens, top_k]`, each expert's in whole blocks.

    experts of the pairs    0 2  1 2  0 2                             block_size 4
    sorted_ids              0 4 - -   2 - - -   1 3 5 -   - - - -     - is 6 or more
    expert_ids              0         1         2         3 (none)
    """
    pairs, numbers = experts.flatten(), torch.arange(num_experts, device=experts.device)
    padding = -(pairs.unsqueeze(1) == numbers).sum(0) % block_size
    # Each expert has a block of padding; what it does not need is sorted behind all experts.
    is_needed = torch.arange(block_size, device=experts.device) < padding.unsqueeze(1)
    padded = torch.cat((pairs, torch.where(is_needed, numbers.unsqueeze(1), num_experts).flatten()))
    sorted_ids = padded.argsort(stable=True)
    expert_ids = padded[sorted_ids[::block_size]][: len(padded) // block_size]
    return SortedPairs(sorted_ids, expert_ids, len(pairs), block_size)


@triton.jit
def grouped_linear_kernel(
    x,  # [num_rows, in_features], contiguous
    addresses,  # [num_experts] of matrices [out_features, in_features], contiguous
    like,  # one of them, for its type
    out,  # [num_pairs, out_features], contiguous
    sorted_ids,
    expert_ids,
    num_experts,
    num_pairs,
    in_features,
    out_features,
    address_stride,
    PAIRS_A_ROW: tl.constexpr,  # of x
    ROWS: tl.constexpr,
    OUTPUTS: tl.constexpr,
    INPUTS: tl.constexpr,
):
    """Program (block of pairs, block of outputs)."""
    expert = tl.load(expert_ids + tl.program_id(0))
    if expert < num_experts:
        pairs = tl.load(sorted_ids + tl.program_id(0) * ROWS + tl.arange(0, ROWS))[:, None]
        outputs = tl.program_id(1) * OUTPUTS + tl.arange(0, OUTPUTS)[None, :]
        weight = tl.load(addresses + expert * address_stride).to(like.dtype)
        sums = tl.zeros((ROWS, OUTPUTS), tl.float32)
        for first in range(0, in_features, INPUTS):
            inputs = first + tl.arange(0, INPUTS)
            numbers = tl.load(
                x + pairs // PAIRS_A_ROW * in_features + inputs[None, :],
                mask=(pairs < num_pairs) & (inputs < in_features)[None, :],
                other=0.0,
            )
            w = tl.load(
                weight + outputs.to(tl.int64) * in_features + inputs[:, None],
                mask=(outputs < out_features) & (inputs < in_features)[:, None],
                other=0.0,
            )
            sums = tl.dot(numbers.to(w.dtype), w, sums, input_precision="ieee")
        pointers = out + pairs * out_features + outputs
        is_real = (pairs < num_pairs) & (outputs < out_features)
        tl.store(pointers, sums.to(out.dtype.element_ty), mask=is_real)


def grouped_linear(
    x: torch.Tensor, pairs: SortedPairs, addresses: torch.Tensor, like: torch.Tensor, size: int
) -> torch.Tensor:
    """Multiply each pair's row of x by a matrix of its expert: [num_pairs, size].

    x: [num_tokens or num_pairs, in_features]; addresses: [num_experts]; like: any of the experts'
    matrices, for the type
    """
    out = x.new_empty(pairs.num_pairs, size)
    grouped_linear_kernel[len(pairs.expert_ids), triton.cdiv(size, OUTPUTS)](
        x, addresses, like, out, pairs.sorted_ids, pairs.expert_ids, len(addresses),
        pairs.num_pairs, x.shape[1], size, addresses.stride(0),
        PAIRS_A_ROW=pairs.num_pairs // len(x), ROWS=pairs.block_size, OUTPUTS=OUTPUTS,
        INPUTS=INPUTS,
    )  # fmt: skip
    return out


def fused_experts(
    x: torch.Tensor, shares: torch.Tensor, experts: torch.Tensor, table: torch.Tensor, gate_up: Any
) -> torch.Tensor:
    """Run the experts of all tokens; `minivllm.runtime.model.decoder.Experts` is the reference.

    x: [num_tokens, hidden_size]; shares, experts: [num_tokens, top_k], as the router returns them
    table: [num_experts, 2], addresses of each expert's gate and up in one matrix, and of its down
    gate_up: the `TorchMatrix` of one expert, [2 * width, hidden_size]
    """
    weight, few = gate_up.weight, experts.numel() <= FEW_ROWS * len(table)
    pairs = moe_align_block_size(experts, len(table), FEW_ROWS if few else MANY_ROWS)
    gated = silu_and_mul(grouped_linear(x, pairs, table[:, 0], weight, len(weight)))
    results = grouped_linear(gated, pairs, table[:, 1], weight, x.shape[1])
    return (results.view(*experts.shape, -1) * shares.unsqueeze(-1)).sum(1)
