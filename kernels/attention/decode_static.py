"""Decode attention, rung 4: every launch alike, so that a CUDA graph can replay it.

A CUDA graph records launches with their grids and arguments and repeats them without Python, which
is most of the time of a decode step on a small model. So nothing of a launch may depend on the
batch: the grid is that of `max_num_seqs` sequences, the number of splits that of `max_model_len`
tokens, and all tensors keep their addresses. What the batch is stands *in* the tensors: their rows,
and the length of each.

The easy thing to get wrong is the rows that a smaller batch leaves over. Their lengths are set to
0, and a row of length 0 is not read at all, neither its query nor its block table, which may be
stale.

Source: vLLM `vllm/v1/worker/gpu_model_runner.py` (persistent batch, `capture_model`).
"""

import copy

import torch

from minivllm.kernels.attention.decode_split import (
    DEFAULT_NUM_PROCESSORS,
    SplitWorkspace,
    choose_num_splits,
    decode_split,
)


class StaticDecode:
    """The tensors of decode steps of up to `max_num_seqs` sequences, and the launches over them."""

    def __init__(
        self,
        max_num_seqs: int,
        max_model_len: int,
        key_cache: torch.Tensor,
        num_heads: int,
        scale: float,
        num_processors: int = DEFAULT_NUM_PROCESSORS,
    ) -> None:
        """key_cache: any layer's, [num_blocks, block_size, num_kv_heads, head_size]; its shape,
        dtype and device count.
        """
        _, block_size, num_kv_heads, head_size = key_cache.shape
        device = key_cache.device
        self._scale = scale
        self._max_model_len, self._num_kv_heads, self._num_processors = (
            max_model_len,
            num_kv_heads,
            num_processors,
        )
        max_blocks = -(-max_model_len // block_size)
        self.block_tables = torch.zeros(max_num_seqs, max_blocks, dtype=torch.int32, device=device)
        """[max_num_seqs, max_blocks]"""
        self.seq_lens = torch.zeros(max_num_seqs, dtype=torch.int32, device=device)
        """[max_num_seqs]; 0 is a padded row."""
        self.out = torch.zeros(
            max_num_seqs, num_heads, head_size, dtype=key_cache.dtype, device=device
        )
        """[max_num_seqs, num_heads, head_size]: the output of the last call, overwritten by the
        next (layer's).
        """
        self._plan_splits()

    def _plan_splits(self) -> None:
        num_seqs = len(self.out)
        self._num_splits = choose_num_splits(
            num_seqs, self._num_kv_heads, self._max_model_len, self._num_processors
        )
        # Whole contexts need no parts to be put together.
        self._workspace = (
            SplitWorkspace.empty(self.out, self._num_splits) if self._num_splits > 1 else None
        )

    def first_rows(self, num_seqs: int) -> "StaticDecode":
        """The launches for batches of at most `num_seqs` sequences, over the first rows of the same
        tensors.

        A grid of `max_num_seqs` is mostly idle for a small batch, and leaves it without splits: so
        a graph for each size.
        """
        part = copy.copy(self)
        part.block_tables, part.seq_lens = self.block_tables[:num_seqs], self.seq_lens[:num_seqs]
        part.out = self.out[:num_seqs]
        part._plan_splits()
        return part

    def set_batch(self, block_tables: torch.Tensor, seq_lens: torch.Tensor) -> None:
        """Put a step's sequences in the first rows; once a step, outside of the graph.

        block_tables: [num_seqs, at most max_blocks]; seq_lens: [num_seqs]; both may be on the CPU
        """
        num_seqs, width = block_tables.shape
        self.block_tables[:num_seqs, :width].copy_(block_tables, non_blocking=True)
        self.seq_lens[:num_seqs].copy_(seq_lens, non_blocking=True)
        self.seq_lens[num_seqs:] = 0

    def __call__(
        self, query: torch.Tensor, key_cache: torch.Tensor, value_cache: torch.Tensor
    ) -> torch.Tensor:
        """Attention of all rows; once a layer, inside of the graph.

        query: [max_num_seqs, num_heads, head_size], padded rows may hold anything
        Returns `out`; padded rows are zeros.
        """
        return decode_split(
            query,
            key_cache,
            value_cache,
            self.block_tables,
            self.seq_lens,
            self._scale,
            self._num_splits,
            self._workspace,
            self.out,
        )
