"""Attention mass: the share of the last token's attention on each block of its sequence.

A block's share is the mean over all layers and query heads (`AttentionWatcher` adds the layers).
The queries are rotated.
"""

from collections.abc import Callable

import torch


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

    read_blocks: as `AttentionBackend.read_blocks`, of one layer
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
