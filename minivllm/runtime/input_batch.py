"""`InputBatch`: turns a plan into the flat arrays that one forward pass takes.

For each batch slot, it keeps a row with the block ids of the slot's sequence (vLLM's `BlockTable`).
A block table grows only at its end, so a step appends the few new ids; a copy-on-write also
replaces the last old id. If the slot has another sequence, or the sequence was preempted
(`starts_fresh`), the whole row is rewritten. numpy does the work per token, Python only a little
work per sequence.

Source: vLLM `vllm/v1/worker/gpu_input_batch.py`, `block_table.py`, `gpu_model_runner.py`
(`_prepare_inputs`).
"""

from dataclasses import dataclass
from itertools import chain

import numpy as np

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.block_pool import KVCacheBlock
from minivllm.core.request import Sequence
from minivllm.core.scheduler_output import ScheduledSequence, SchedulerOutput


@dataclass(slots=True)
class CommonAttentionMetadata:
    """What every attention backend needs to know about a step. Sequences are in plan order."""

    query_start_loc: np.ndarray
    """[num_seqs + 1] int64: sequence i has rows [query_start_loc[i], query_start_loc[i + 1])."""
    num_computed_tokens: np.ndarray
    """[num_seqs] int64: how many tokens of each sequence were computed before this step."""
    block_tables: np.ndarray
    """[num_seqs, max_blocks] int64: block ids; entries past a sequence's end are stale."""
    slot_mapping: np.ndarray
    """[num_tokens] int64: the slot of each token's key and value; -1 if they are not written."""
    num_drafts: np.ndarray | None = None
    """[num_seqs] int64: how many of each sequence's last rows are drafts; None if there are none"""

    @property
    def last_rows(self) -> np.ndarray:
        """[num_seqs]: the row of each sequence's last token that is no draft."""
        rows = self.query_start_loc[1:] - 1
        return rows if self.num_drafts is None else rows - self.num_drafts

    @property
    def seq_lens(self) -> np.ndarray:
        """[num_seqs]: the length of each sequence up to that token."""
        return self.num_computed_tokens + self.last_rows + 1 - self.query_start_loc[:-1]

    def block_ids(self, index: int, block_size: int) -> list[int]:
        """The block table of a sequence, as far as these tokens need it."""
        return self.block_tables[index, : -(-int(self.seq_lens[index]) // block_size)].tolist()


@dataclass(slots=True)
class ModelInput:
    """One step's flat batch."""

    token_ids: np.ndarray
    """[num_tokens] int64"""
    positions: np.ndarray
    """[num_tokens] int64"""
    sampling_rows: np.ndarray
    """[num_sampling_sequences] int64: the rows whose hidden state predicts a token, in plan order.

    A prompt with n samples has its last row n times; a sequence with drafts has one before each.
    """
    attention: CommonAttentionMetadata

    @property
    def samples_every_row(self) -> bool:
        """Whether each row predicts one token, as in a decode step (`sampling_rows`: 0, 1, ...)."""
        return np.array_equal(self.sampling_rows, np.arange(len(self.token_ids)))


class InputBatch:
    """The persistent part of the batch: one row of block ids for each slot."""

    def __init__(self, max_num_seqs: int, max_model_len: int, block_size: int) -> None:
        self._block_size = block_size
        max_blocks = -(-max_model_len // block_size)
        self._block_ids = np.zeros((max_num_seqs, max_blocks), dtype=np.int64)
        # For each row: the sequence that owns it, the number of its blocks, and its last block.
        self._owners: list[Sequence | None] = [None] * max_num_seqs
        self._num_blocks = [0] * max_num_seqs
        self._last_blocks: list[KVCacheBlock | None] = [None] * max_num_seqs

    def prepare(self, plan: SchedulerOutput) -> ModelInput:
        """Bring the rows up to date and lay out the tokens of `plan`."""
        scheduled = plan.scheduled
        num_seqs = len(scheduled)
        self._update_rows(scheduled)
        slots = _array([item.sequence.slot for item in scheduled])
        starts = _array([item.start for item in scheduled])
        num_cached = _array([item.sequence.num_cached_tokens for item in scheduled])
        num_samples = _array([len(item.sampling) for item in scheduled])
        if plan.total_num_scheduled_tokens == num_seqs:  # one token per sequence: nearly every step
            lengths = 1
            token_ids = [item.sequence.token_ids[item.start] for item in scheduled]
            query_start_loc = np.arange(num_seqs + 1)
            of_sequence, positions = query_start_loc[:-1], starts
        else:
            lengths = _array([item.num_tokens for item in scheduled])
            chunks = [
                [
                    *item.sequence.token_ids[item.start : item.start + item.num_tokens],
                    *item.draft_token_ids,  # the tokens above end before the drafts
                ]
                for item in scheduled
            ]
            token_ids = list(chain.from_iterable(chunks))
            query_start_loc = np.zeros(num_seqs + 1, dtype=np.int64)
            np.cumsum(lengths, out=query_start_loc[1:])
            # From here on, arrays have one entry per token; `of_sequence` is the token's sequence,
            # and position = start + (row - first row of its sequence):
            # starts 5 0, lengths 1 3: loc 0 1 4, of_sequence 0 1 1 1, positions 5 0 1 2
            of_sequence = np.repeat(np.arange(num_seqs), lengths)
            positions = np.arange(len(token_ids)) + (starts - query_start_loc[:-1])[of_sequence]
        width = -(-int((starts + lengths).max()) // self._block_size)
        block_tables = self._block_ids[slots, :width]
        index, offset = np.divmod(positions, self._block_size)
        slot_mapping = block_tables[of_sequence, index] * self._block_size + offset
        slot_mapping[positions < num_cached[of_sequence]] = NOT_WRITTEN
        sampling_rows, num_drafts = np.repeat(query_start_loc[1:] - 1, num_samples), None
        if plan.num_draft_tokens:
            num_drafts = _array([len(item.draft_token_ids) for item in scheduled])
            ends = query_start_loc[1:].tolist()
            sampling_rows = _array([*chain.from_iterable(map(_sampling_rows, scheduled, ends))])
        return ModelInput(
            token_ids=_array(token_ids),
            positions=positions,
            sampling_rows=sampling_rows,
            attention=CommonAttentionMetadata(
                query_start_loc, starts, block_tables, slot_mapping, num_drafts
            ),
        )

    def _update_rows(self, scheduled: list[ScheduledSequence]) -> None:
        """Update the rows that changed. In a decode step few did: a row grows once per block."""
        owners, num_blocks, last_blocks = self._owners, self._num_blocks, self._last_blocks
        for item in scheduled:
            sequence = item.sequence
            slot, table = sequence.slot, sequence.block_table
            is_stale = item.starts_fresh or owners[slot] is not sequence
            if is_stale or num_blocks[slot] != len(table) or last_blocks[slot] is not table[-1]:
                self._update_row(sequence, is_stale)

    def _update_row(self, sequence: Sequence, is_stale: bool) -> None:
        """Append the block ids that the slot's row lacks; write all ids if the row `is_stale`."""
        slot, table = sequence.slot, sequence.block_table
        # Rejected drafts may have shortened the table. Copy-on-write, and drafts after that, may
        # have replaced the last known block.
        num_known = 0 if is_stale else min(self._num_blocks[slot], len(table))
        if num_known and self._last_blocks[slot] is not table[num_known - 1]:
            num_known -= 1
        new = [block.block_id for block in table[num_known:]]
        self._block_ids[slot, num_known : len(table)] = new
        self._owners[slot], self._num_blocks[slot] = sequence, len(table)
        self._last_blocks[slot] = table[-1]


def _sampling_rows(item: ScheduledSequence, end: int) -> list[int]:
    """Return the rows that predict a token. end: the row after the item's last."""
    if item.draft_token_ids:
        return list(range(end - 1 - len(item.draft_token_ids), end))
    return [end - 1] * len(item.sampling)


def _array(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, dtype=np.int64)
