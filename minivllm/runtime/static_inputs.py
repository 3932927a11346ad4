"""`StaticInputs`: a step's inputs in fixed device tensors, a row per token, in one copy per step.

A copy to the device takes the host some ten microseconds, however small it is. So all small inputs
are the rows of one tensor:

    token_ids, positions, slot_mapping, seq_lens    one entry for each row: a token of a sequence
    changed_entries, changed_ids                    at most max_num_rows changes in the block tables

Block tables are larger and hardly change: a sequence gets a new block every `block_size` steps. The
host keeps a copy of the device's tables and sends only the differences. If there are too many,
because rows moved when a sequence was admitted or finished, all tables are copied.

Host memory is not pinned, so a copy call returns only after it has read the source. The next step
may overwrite the host arrays at once.
"""

from typing import Any, NamedTuple

import numpy as np
import torch

from minivllm.runtime.input_batch import NOT_WRITTEN, ModelInput


class Rows(NamedTuple):
    """The rows of the tensor, [max_num_rows] each: as arrays on the host, or as device tensors."""

    token_ids: Any
    positions: Any
    slot_mapping: Any
    """-1 for padding, which is not written to the cache"""
    seq_lens: Any
    """int32, as the kernels need it; includes the row's token; 0 for padding"""
    changed_entries: Any
    """Indices into the flattened block tables."""
    changed_ids: Any
    """int32: the new block ids at these indices"""


class StaticInputs:
    """Inputs of steps of up to `max_num_rows` rows, one for each token; unused rows are padding."""

    def __init__(self, block_tables: torch.Tensor) -> None:
        """Take over `block_tables`: from now on, no other code may write to it.

        block_tables: [max_num_rows, max_blocks] int32, all zeros
        """
        max_num_rows, max_blocks = block_tables.shape
        self._host_side = np.zeros((len(Rows._fields), max_num_rows), dtype=np.int64)
        self._on_host = _rows(self._host_side, np.int32)
        self._on_host.slot_mapping[:] = NOT_WRITTEN
        self._device_side = torch.tensor(self._host_side, device=block_tables.device)
        self.on_device = _rows(self._device_side, torch.int32)
        self._block_tables = block_tables
        self._sent_tables = np.zeros((max_num_rows, max_blocks), dtype=np.int64)

    def set(self, inputs: ModelInput) -> None:
        """Copy a step's inputs to the device: one row per token, then rows of padding."""
        num_rows, rows = len(inputs.token_ids), self._on_host
        rows.token_ids[:num_rows] = inputs.token_ids
        rows.positions[:num_rows] = inputs.positions
        rows.slot_mapping[:num_rows] = inputs.attention.slot_mapping
        rows.slot_mapping[num_rows:] = NOT_WRITTEN
        rows.seq_lens[:num_rows] = inputs.positions + 1
        rows.seq_lens[num_rows:] = 0
        block_tables = inputs.attention.block_tables
        if num_rows != len(block_tables):  # rows of one sequence have the same blocks
            lengths = np.diff(inputs.attention.query_start_loc)
            block_tables = block_tables.repeat(lengths, axis=0)
        sent = self._sent_tables[:num_rows, : block_tables.shape[1]]
        changes = np.flatnonzero(block_tables != sent)
        if len(changes) > len(self._sent_tables):
            new = torch.from_numpy(block_tables.astype(np.int32))
            self._block_tables[:num_rows, : block_tables.shape[1]].copy_(new, non_blocking=True)
            sent[:] = block_tables
            changes = changes[:0]
        row, column = np.divmod(changes, block_tables.shape[1])
        rows.changed_entries[: len(changes)] = row * self._sent_tables.shape[1] + column
        rows.changed_ids[: len(changes)] = block_tables[row, column]
        self._device_side.copy_(torch.from_numpy(self._host_side), non_blocking=True)
        if len(changes):
            entries, block_ids = self.on_device.changed_entries, self.on_device.changed_ids
            self._block_tables.view(-1).index_copy_(
                0, entries[: len(changes)], block_ids[: len(changes)]
            )
            # Only after the copy: if it fails, the next step sends the changes again.
            sent[row, column] = block_tables[row, column]


def _rows(side: Any, int32: Any) -> Rows:
    """Name the rows of `side`: [number of rows, max_num_rows] int64.

    An int32 row uses the first half of its bytes.
    """
    rows, length = Rows(*side), side.shape[1]
    return rows._replace(
        seq_lens=rows.seq_lens.view(int32)[:length],
        changed_ids=rows.changed_ids.view(int32)[:length],
    )
