"""`StaticInputs`: what a decode step reads, in device tensors that stay where they are, filled by
one copy a step.

A copy to the device costs the host some ten microseconds, however little it copies. So everything
small is in one tensor, of one row each:

    token_ids, positions, slot_mapping, seq_lens    one entry for each sequence of the batch
    changed_entries, changed_ids                    what has changed in the block tables, at most as
                                                    many

Block tables are larger and hardly change: a sequence gets a block every `block_size` steps. A copy
of them on the host says what the device has, so only the differences are sent. After an admission
or an end rows move up or down and there may be too many differences; then all tables are copied.

Called by `minivllm.runtime.cuda_graphs` before each decode step. The host's side is ordinary
memory, which is read before the copy returns, so nothing waits for the device, and the next step
may write there at once.
"""

from typing import Any, NamedTuple

import numpy as np
import torch

from minivllm.runtime.input_batch import NOT_WRITTEN, ModelInput


class _Rows(NamedTuple):
    """The rows of the one tensor, on the host (arrays) or on the device (tensors); [max_num_seqs]
    each.
    """

    token_ids: Any
    positions: Any
    slot_mapping: Any
    seq_lens: Any
    """int32, as the kernels want it"""
    changed_entries: Any
    """Places in the flattened block tables."""
    changed_ids: Any
    """int32: the block ids that are there now"""


class StaticInputs:
    """The inputs of decode steps of up to `max_num_seqs` sequences. Rows beyond a step's batch are
    padding.
    """

    def __init__(self, block_tables: torch.Tensor) -> None:
        """block_tables: [max_num_seqs, max_blocks] int32, all zeros; kept up to date from here on,
        and by nobody else
        """
        max_num_seqs, max_blocks = block_tables.shape
        self._host_side = np.zeros((len(_Rows._fields), max_num_seqs), dtype=np.int64)
        self._on_host = _rows(self._host_side, np.int32)
        self._on_host.slot_mapping[:] = NOT_WRITTEN
        self._device_side = torch.tensor(self._host_side, device=block_tables.device)
        self._on_device = _rows(self._device_side, torch.int32)
        self._block_tables = block_tables
        self._sent_tables = np.zeros((max_num_seqs, max_blocks), dtype=np.int64)

    @property
    def token_ids(self) -> torch.Tensor:
        """[max_num_seqs] int64"""
        return self._on_device.token_ids

    @property
    def positions(self) -> torch.Tensor:
        """[max_num_seqs] int64"""
        return self._on_device.positions

    @property
    def slot_mapping(self) -> torch.Tensor:
        """[max_num_seqs] int64; -1 in padding, of which nothing is written"""
        return self._on_device.slot_mapping

    @property
    def seq_lens(self) -> torch.Tensor:
        """[max_num_seqs] int32, this step's token counted; 0 in padding, of which nothing is
        read
        """
        return self._on_device.seq_lens

    def set(self, inputs: ModelInput) -> None:
        """Bring a step's inputs to the device: sequences with one token each in the first rows,
        padding in the others.
        """
        num_seqs, rows = len(inputs.token_ids), self._on_host
        rows.token_ids[:num_seqs] = inputs.token_ids
        rows.positions[:num_seqs] = inputs.positions
        rows.slot_mapping[:num_seqs] = inputs.attention.slot_mapping
        rows.slot_mapping[num_seqs:] = NOT_WRITTEN
        rows.seq_lens[:num_seqs] = inputs.positions + 1
        rows.seq_lens[num_seqs:] = 0
        block_tables = inputs.attention.block_tables
        sent = self._sent_tables[:num_seqs, : block_tables.shape[1]]
        changes = np.flatnonzero(block_tables != sent)
        if len(changes) > len(self._sent_tables):
            new = torch.from_numpy(block_tables.astype(np.int32))
            self._block_tables[:num_seqs, : block_tables.shape[1]].copy_(new, non_blocking=True)
            sent[:] = block_tables
            changes = changes[:0]
        row, column = np.divmod(changes, block_tables.shape[1])
        rows.changed_entries[: len(changes)] = row * self._sent_tables.shape[1] + column
        rows.changed_ids[: len(changes)] = block_tables[row, column]
        self._device_side.copy_(torch.from_numpy(self._host_side), non_blocking=True)
        if len(changes):
            entries, block_ids = self._on_device.changed_entries, self._on_device.changed_ids
            self._block_tables.view(-1).index_copy_(
                0, entries[: len(changes)], block_ids[: len(changes)]
            )
            sent[row, column] = block_tables[
                row, column
            ]  # only now: a copy that fails is made again with the next step


def _rows(side: Any, int32: Any) -> _Rows:
    """side: [number of rows, max_num_seqs] int64. Rows of int32 take the first half of theirs."""
    rows, length = _Rows(*side), side.shape[1]
    return rows._replace(
        seq_lens=rows.seq_lens.view(int32)[:length],
        changed_ids=rows.changed_ids.view(int32)[:length],
    )
