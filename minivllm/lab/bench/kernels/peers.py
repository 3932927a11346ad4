"""Peers for `minivllm bench kernels`: torch's own attention, and FlexAttention.

Each peer gets gathered keys and values, and gathering is not timed. If a peer cannot run a shape,
the report states the reason.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch.nn.attention.flex_attention import flex_attention
from torch.nn.functional import scaled_dot_product_attention

from minivllm.lab.bench.kernels.cases import Batch, KernelCase
from minivllm.lab.bench.kernels.runs import Run


def make_peers(case: KernelCase, batch: Batch) -> dict[str, Callable[[], Run]]:
    """Map each peer's name to a function that makes its `Run`; both may raise any exception."""
    peers: dict[str, Callable[[], Run]] = {}
    if case.kernel in ("decode", "prefill"):
        peers["sdpa (gathered)"] = partial(
            _attention, case, batch, lambda: scaled_dot_product_attention
        )
    if batch.query.is_cuda and case.kernel == "decode":
        peers["FlexAttention (gathered)"] = partial(_attention, case, batch, _flex_attention)
    return peers


def _attention(
    case: KernelCase, batch: Batch, make: Callable[[], Callable[..., torch.Tensor]]
) -> Run:
    key, value = batch.gathered(case.context)
    attention = make()
    if case.kernel == "decode":
        query = batch.query.unsqueeze(2)  # [batch, heads, 1, head_size]
        return lambda: attention(query, key, value, enable_gqa=True).squeeze(2)
    query = batch.query.view(case.batch, case.context, case.heads, case.head_size).transpose(1, 2)

    def run() -> torch.Tensor:
        # [batch, heads, context, head_size]; for a single sequence, `flatten` is free.
        output = attention(query, key, value, is_causal=True, enable_gqa=True)
        return output.transpose(1, 2).flatten(0, 1)

    return run


def _flex_attention() -> Callable[..., torch.Tensor]:
    # Reset, because with `fullgraph` torch raises after compiling eight shapes.
    torch._dynamo.reset()
    return torch.compile(flex_attention, dynamic=False, fullgraph=True)
