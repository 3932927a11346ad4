"""A row attends to the rows of its sequence in this step."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk, flat_slot_mapping, query_start_loc

HINT = (
    "Cleo has four tokens from an earlier step. Where are their keys and values, and who reads"
    " them?"
)


def slots_read(chunks: Seq[ScheduledChunk], block_size: int, row: int) -> list[int]:
    start = max(one for one in query_start_loc(chunks)[:-1] if one <= row)
    return flat_slot_mapping(chunks, block_size)[start : row + 1]
