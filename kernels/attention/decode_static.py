"""Decode attention, kernel version 4: identical launches, so that a CUDA graph can replay them.

A CUDA graph records launches with their grids and arguments, and repeats them without Python, which
takes most of the time of a small model's decode step. A recorded launch must not depend on the
batch: the grid is for `max_num_rows` rows, and the number of splits for `max_model_len`
tokens. The batch is *in* the tensors: block tables and lengths. Unused rows have length 0; for
them, kernels read neither the query nor the (stale) block table.

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
    """The tensors of decode steps of up to `max_num_rows` rows (tokens), and their launches."""

    def __init__(
        self,
        max_num_rows: int,
        max_model_len: int,
        key_cache: torch.Tensor,
        num_heads: int,
        scale: float,
        num_processors: int = DEFAULT_NUM_PROCESSORS,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Allocate the tensors.

        key_cache: [num_blocks, block_size, num_kv_heads, head_size], of any layer; only its shape,
            dtype and device are used
        dtype: of queries and results; None: that of the cache
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
        self.block_tables = torch.zeros(max_num_rows, max_blocks, dtype=torch.int32, device=device)
        """[max_num_rows, max_blocks]"""
        self.seq_lens = torch.zeros(max_num_rows, dtype=torch.int32, device=device)
        """[max_num_rows]; a length of 0 marks a padded row."""
        self.out = torch.zeros(
            max_num_rows, num_heads, head_size, dtype=dtype or key_cache.dtype, device=device
        )
        """[max_num_rows, num_heads, head_size], overwritten by each call (once per layer)."""
        self._plan_splits()

    def _plan_splits(self) -> None:
        num_seqs = len(self.out)
        self._num_splits = choose_num_splits(
            num_seqs, self._num_kv_heads, self._max_model_len, self._num_processors
        )
        # Without splits there is nothing to merge.
        self._workspace = (
            SplitWorkspace.empty(self.out, self._num_splits) if self._num_splits > 1 else None
        )

    def first_rows(self, num_rows: int) -> "StaticDecode":
        """Return the launches over the first `num_rows` rows.

        For a small batch, most programs of a grid for `max_num_rows` would be idle, and each
        context would get too few splits. So each padded size gets its own graph.
        """
        part = copy.copy(self)
        part.block_tables, part.seq_lens = self.block_tables[:num_rows], self.seq_lens[:num_rows]
        part.out = self.out[:num_rows]
        part._plan_splits()
        return part

    def set_batch(self, block_tables: torch.Tensor, seq_lens: torch.Tensor) -> None:
        """Write a step's sequences to the first rows, once per step, outside the graph.

        block_tables: [num_seqs, at most max_blocks]; seq_lens: [num_seqs]; both can be on the CPU
        """
        num_seqs, width = block_tables.shape
        self.block_tables[:num_seqs, :width].copy_(block_tables, non_blocking=True)
        self.seq_lens[:num_seqs].copy_(seq_lens, non_blocking=True)
        self.seq_lens[num_seqs:] = 0

    def __call__(
        self,
        query: torch.Tensor,
        key_cache: torch.Tensor,
        value_cache: torch.Tensor,
        window: int = 0,
    ) -> torch.Tensor:
        """Attend for all rows, once per layer, inside the graph.

        query: [max_num_rows, num_heads, head_size], with any contents in padded rows

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
            window,
        )
