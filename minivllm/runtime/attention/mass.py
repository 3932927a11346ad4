"""Attention mass: the share of the last token's attention on each block of its sequence.

A block's share is the mean over all layers and query heads. For one sequence, `TokenMeter` has the
share of each token, also of one layer and head. `AttentionWatcher` calls the meters after each
layer's attention, when the cache has all keys of the layer, the last token's included. They get the
rotated queries of these last tokens.
"""

from collections.abc import Callable

import numpy as np
import torch

from minivllm.runtime.input_batch import CommonAttentionMetadata
from minivllm.runtime.step_result import TokenShares, TokenWatch

MassOfBlocks = Callable[[int, torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""`AttentionBackend.attention_mass`."""
ReadBlocks = Callable[[int, list[int]], tuple[torch.Tensor, torch.Tensor]]
"""`AttentionBackend.read_blocks`."""


class AttentionMassMeter:
    """Averages the attention mass over the layers of one step."""

    def __init__(
        self,
        common: CommonAttentionMetadata,
        block_size: int,
        device: torch.device,
        mass_of_blocks: MassOfBlocks,
    ) -> None:
        seq_lens = common.seq_lens
        self._num_blocks = -(-seq_lens // block_size)
        self._seq_lens = torch.from_numpy(seq_lens.astype(np.int32)).to(device)
        self._block_tables = torch.from_numpy(common.block_tables.astype(np.int32)).to(device)
        self._mass_of_blocks = mass_of_blocks
        self._sum = torch.zeros(common.block_tables.shape, device=device)  # [num_seqs, max_blocks]
        self._num_layers = 0

    def add_layer(self, layer: int, query: torch.Tensor) -> None:
        """Add one layer. query: [num_seqs, num_heads, head_size]"""
        mass = self._mass_of_blocks(layer, query, self._block_tables, self._seq_lens)
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


class TokenMeter:
    """Averages the attention of one sequence's last token, token by token, with any backend."""

    def __init__(
        self,
        common: CommonAttentionMetadata,
        block_size: int,
        watch: TokenWatch,
        read_blocks: ReadBlocks,
    ) -> None:
        self._watch, self._read_blocks = watch, read_blocks
        self._seq_len = int(common.seq_lens[watch.index])
        self._block_ids = common.block_ids(watch.index, block_size)
        self._sum: torch.Tensor | None = None
        self._num_added = self._num_layers = self._num_heads = 0

    def add_layer(self, layer: int, query: torch.Tensor) -> None:
        """Add one layer. query: [num_seqs, num_heads, head_size]"""
        self._num_layers, self._num_heads = layer + 1, query.shape[1]
        head = self._watch.head
        if self._watch.layer not in (None, layer) or (head or 0) >= self._num_heads:
            return
        keys, _ = self._read_blocks(layer, self._block_ids)
        last = query[self._watch.index]
        weights = attention_weights(last, keys, self._seq_len, last.shape[1] ** -0.5)
        own = weights.mean(dim=0) if head is None else weights[head]
        self._sum = own if self._sum is None else self._sum + own
        self._num_added += 1

    def result(self) -> TokenShares | None:
        """The shares; None if the model does not have the layer or head."""
        if self._sum is None:
            return None
        weights = (self._sum / self._num_added).tolist()
        return TokenShares(self._watch, weights, self._num_layers, self._num_heads)


def gathered_attention_mass(
    query: torch.Tensor,
    read_blocks: Callable[[list[int]], tuple[torch.Tensor, torch.Tensor]],
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
    block_size: int,
) -> torch.Tensor:
    """Compute the attention mass for the backend `torch`, with few operations per sequence.

    The shapes are those of `minivllm.kernels.reference.attention_mass`.

    read_blocks: as `ReadBlocks`, of one layer
    """
    num_seqs, num_heads, _ = query.shape
    mass = torch.zeros(num_seqs, num_heads, block_tables.shape[1], device=query.device)
    for i, seq_len in enumerate(seq_lens.tolist()):
        num_blocks = -(-seq_len // block_size)
        keys, _ = read_blocks(block_tables[i, :num_blocks].tolist())
        weights = attention_weights(query[i], keys, seq_len, scale)
        padded = torch.nn.functional.pad(weights, (0, num_blocks * block_size - seq_len))
        mass[i, :, :num_blocks] = padded.view(num_heads, num_blocks, block_size).sum(-1)
    return mass


def attention_weights(
    query: torch.Tensor, blocks: torch.Tensor, seq_len: int, scale: float
) -> torch.Tensor:
    """Return the softmax of one token's scores: [num_heads, seq_len] in float32.

    query: [num_heads, head_size]
    blocks: [num_blocks, block_size, num_kv_heads, head_size], the keys in order; slots after the
        first `seq_len` are not read
    """
    keys = blocks.flatten(0, 1)[:seq_len].float()
    # neighbouring query heads share a key head
    q = query.float().view(keys.shape[1], query.shape[0] // keys.shape[1], -1)
    return torch.softmax(torch.einsum("kgd,tkd->kgt", q, keys) * scale, dim=-1).flatten(0, 1)
