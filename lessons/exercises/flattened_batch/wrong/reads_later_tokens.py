"""A row attends to its whole sequence."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import (
    ScheduledChunk,
    flat_slot_mapping,
    query_start_loc,
    seq_lens,
)

HINT = "The first word of a prompt would see the second one. Could the model then learn to predict?"


def slots_read(chunks: Seq[ScheduledChunk], block_size: int, row: int) -> list[int]:
    number = sum(start <= row for start in query_start_loc(chunks)[:-1]) - 1
    one = chunks[number]
    whole = one._replace(num_computed_tokens=0, num_tokens=seq_lens([one])[0])
    return flat_slot_mapping([whole], block_size)
