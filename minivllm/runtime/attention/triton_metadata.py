"""The metadata of the attention backend `triton` for one step: which kernel gets which sequences.

Source: vLLM `vllm/v1/attention/backends/triton_attn.py` (`TritonAttentionMetadata`).
"""

from dataclasses import dataclass

import torch

from minivllm.kernels.attention.decode_static import StaticDecode
from minivllm.runtime.attention.partial import Rows


@dataclass(slots=True)
class Decodes:
    """The sequences for which this step computes one token."""

    rows: Rows
    """Rows of these sequences in the flat batch."""
    block_tables: torch.Tensor
    """[num_decodes, max_blocks] int32"""
    seq_lens: torch.Tensor
    """[num_decodes] int32, including this step's token"""
    num_splits: int


@dataclass(slots=True)
class Prefills:
    """The sequences for which this step computes several tokens.

    `tiles` lists only these sequences; the other tensors have rows for the whole batch.
    """

    block_tables: torch.Tensor
    """[num_seqs, max_blocks] int32"""
    query_start_loc: torch.Tensor
    """[num_seqs + 1] int32"""
    seq_lens: torch.Tensor
    """[num_seqs] int32"""
    tiles: torch.Tensor
    """[num_tiles, 2] int32: (sequence, first token within its chunk)"""


@dataclass(slots=True)
class Mixed:
    """All sequences of a step that has both chunks and decodes."""

    block_tables: torch.Tensor
    """[num_seqs, max_blocks] int32"""
    query_start_loc: torch.Tensor
    """[num_seqs + 1] int32"""
    seq_lens: torch.Tensor
    """[num_seqs] int32"""


@dataclass(slots=True)
class TritonAttentionMetadata:
    slot_mapping: torch.Tensor
    """[num_tokens] int64"""
    decodes: Decodes | None = None
    prefills: Prefills | None = None
    mixed: Mixed | None = None
    """In a `triton:unified` step that takes one launch, replaces `decodes` and `prefills`."""
    static: StaticDecode | None = None
    """In a decode step of `DecodeGraphs`, replaces `decodes`, `prefills` and `mixed`: one row per
    token, then rows of padding.
    """
