"""The flat batch: sequences of different lengths in one pass of the model, without padding.

    sequence          tokens of this step
    ada   decode      [9]                      rows     0   1   2   3   4   5
    ben   prefill     [5, 6, 7]                tokens   9   5   6   7   3   8
    cleo  chunk       [3, 8]                   owner    ada ben ben ben cleo cleo

The model computes all rows at once; only attention must know whose row is whose. The engine does
the same in numpy, in `minivllm/runtime/input_batch.py`; this is the slow and plain version.

Source: vLLM `vllm/v1/worker/gpu_model_runner.py` (`_prepare_inputs`).
"""

from bisect import bisect_right
from collections.abc import Sequence as Seq
from itertools import accumulate
from typing import NamedTuple


class ScheduledChunk(NamedTuple):
    """The part of one sequence that a step computes."""

    token_ids: Seq[int]
    """All known tokens of the sequence, from its first one on."""
    num_computed_tokens: int
    """How many tokens are in the KV cache already: the position of the first token to compute."""
    num_tokens: int
    """How many tokens this step computes."""
    block_table: Seq[int]
    """Block ids, in the order of the tokens."""


class FlatArrays(NamedTuple):
    """What a pass of the model gets; one entry a row, if nothing else is said."""

    token_ids: list[int]
    positions: list[int]
    query_start_loc: list[int]
    """One entry for each sequence, and one more."""
    seq_lens: list[int]
    """One entry for each sequence."""
    slot_mapping: list[int]
    sampling_rows: list[int]
    """One entry for each sequence that gets a token."""


def flatten(chunks: Seq[ScheduledChunk], block_size: int) -> FlatArrays:
    """Return the arrays of a step. The rows are in the order of the chunks."""
    return FlatArrays(
        flat_token_ids(chunks),
        flat_positions(chunks),
        query_start_loc(chunks),
        seq_lens(chunks),
        flat_slot_mapping(chunks, block_size),
        sampling_rows(chunks),
    )


def flat_token_ids(chunks: Seq[ScheduledChunk]) -> list[int]:
    """Return the token of each row: the next `num_tokens` tokens of each sequence."""
    return [
        token_id
        for chunk in chunks
        for token_id in chunk.token_ids[chunk.num_computed_tokens :][: chunk.num_tokens]
    ]


def flat_positions(chunks: Seq[ScheduledChunk]) -> list[int]:
    """Return the position of each row's token in its own sequence."""
    return [chunk.num_computed_tokens + at for chunk in chunks for at in range(chunk.num_tokens)]


def query_start_loc(chunks: Seq[ScheduledChunk]) -> list[int]:
    """Return the first row of each sequence, and at the end the number of all rows.

    So sequence i has the rows from entry i up to, but without, entry i + 1.
    """
    return [0, *accumulate(chunk.num_tokens for chunk in chunks)]


def seq_lens(chunks: Seq[ScheduledChunk]) -> list[int]:
    """Return how many tokens of each sequence are in the KV cache after this step."""
    return [chunk.num_computed_tokens + chunk.num_tokens for chunk in chunks]


def flat_slot_mapping(chunks: Seq[ScheduledChunk], block_size: int) -> list[int]:
    """Return the slot to which each row's key and value are written.

    Block 0 has the first `block_size` slots of the KV cache, block 1 the next, and so on.
    """
    return [
        chunk.block_table[position // block_size] * block_size + position % block_size
        for chunk in chunks
        for position in flat_positions([chunk])
    ]


def sampling_rows(chunks: Seq[ScheduledChunk]) -> list[int]:
    """Return the rows from which a new token is sampled.

    That is the last row of each sequence whose known tokens have all been computed with this step.
    The part of a prompt that comes first predicts a token which is known already.
    """
    ends = query_start_loc(chunks)[1:]
    return [
        end - 1
        for chunk, end, length in zip(chunks, ends, seq_lens(chunks), strict=True)
        if length == len(chunk.token_ids)
    ]


def slots_read(chunks: Seq[ScheduledChunk], block_size: int, row: int) -> list[int]:
    """Return the slots whose keys and values the attention of this row reads.

    A token attends to the tokens of its own sequence, up to and with itself. The slots are in the
    order of these tokens. All rows of the step are written before any row reads.
    """
    chunk = chunks[bisect_right(query_start_loc(chunks), row) - 1]
    position = flat_positions(chunks)[row]
    whole = chunk._replace(num_computed_tokens=0, num_tokens=position + 1)
    return flat_slot_mapping([whole], block_size)
