"""A row attends to the tokens before it."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import (
    ScheduledChunk,
    flat_positions,
    flat_slot_mapping,
    query_start_loc,
)

HINT = "What would the first token of a sequence attend to?"


def slots_read(chunks: Seq[ScheduledChunk], block_size: int, row: int) -> list[int]:
    number = sum(start <= row for start in query_start_loc(chunks)[:-1]) - 1
    position = flat_positions(chunks)[row]
    whole = chunks[number]._replace(num_computed_tokens=0, num_tokens=position)
    return flat_slot_mapping([whole], block_size)
