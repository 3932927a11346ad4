"""Attention mass: the share of the last token's attention on each block of its sequence.

A block's share is the mean over all layers and query heads. `AttentionWatcher` calls
`AttentionMassMeter` after each layer's attention, when the cache has all keys of the layer, the
last token's included.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from minivllm.runtime.input_batch import CommonAttentionMetadata

MassOfBlocks = Callable[
    [torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor
]
"""The signature of `minivllm.kernels.reference.attention_mass`."""


class AttentionMassMeter:
    """Averages the attention mass over the layers of one step."""

    def __init__(
        self,
        common: CommonAttentionMetadata,
        block_size: int,
        device: torch.device,
        mass_of_blocks: MassOfBlocks,
    ) -> None:
        seq_lens = common.num_computed_tokens + np.diff(common.query_start_loc)  # [num_seqs]
        self._num_blocks = -(-seq_lens // block_size)
        self._last_rows = torch.from_numpy(common.query_start_loc[1:] - 1).to(device)
        self._seq_lens = torch.from_numpy(seq_lens.astype(np.int32)).to(device)
        self._block_tables = torch.from_numpy(common.block_tables.astype(np.int32)).to(device)
        self._mass_of_blocks = mass_of_blocks
        self._sum = torch.zeros(common.block_tables.shape, device=device)  # [num_seqs, max_blocks]
        self._num_layers = 0

    def add_layer(self, query: torch.Tensor, key_cache: torch.Tensor) -> None:
        """Add one layer.

        query: [num_tokens, num_heads, head_size]
        key_cache: [num_blocks, block_size, num_kv_heads, head_size]
        """
        scale = query.shape[2] ** -0.5
        last = query[self._last_rows]  # [num_seqs, num_heads, head_size]
        mass = self._mass_of_blocks(last, key_cache, self._block_tables, self._seq_lens, scale)
        self._sum += mass.mean(dim=1)
        self._num_layers += 1

    def result(self) -> list[list[float]]:
        """Return, for each sequence in plan order, the shares of its blocks.

        Each list is in the order of the block table, and its shares sum to 1.
        """
        rows = (self._sum / self._num_layers).tolist()
        return [
            row[:num_blocks]
            for row, num_blocks in zip(rows, self._num_blocks.tolist(), strict=True)
        ]


def gathered_attention_mass(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """Compute the attention mass for the backend `torch`, with few operations per sequence.

    The shapes are those of `minivllm.kernels.reference.attention_mass`.
    """
    num_seqs, num_heads, _ = query.shape
    block_size, num_kv_heads = key_cache.shape[1:3]
    mass = torch.zeros(num_seqs, num_heads, block_tables.shape[1], device=query.device)
    for i, seq_len in enumerate(seq_lens.tolist()):
        num_blocks = -(-seq_len // block_size)
        keys = key_cache[block_tables[i, :num_blocks].long()].flatten(0, 1)[:seq_len].float()
        # neighbouring query heads share a key head
        q = query[i].float().view(num_kv_heads, num_heads // num_kv_heads, -1)
        weights = torch.softmax(torch.einsum("kgd,tkd->kgt", q, keys) * scale, dim=-1).flatten(0, 1)
        padded = torch.nn.functional.pad(weights, (0, num_blocks * block_size - seq_len))
        mass[i, :, :num_blocks] = padded.view(num_heads, num_blocks, block_size).sum(-1)
    return mass
