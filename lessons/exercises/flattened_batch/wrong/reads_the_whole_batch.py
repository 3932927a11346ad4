"""A row attends to all rows before it."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk, flat_slot_mapping

HINT = "The row before ben's first one is ada's. Should her text change his answer?"


def slots_read(chunks: Seq[ScheduledChunk], block_size: int, row: int) -> list[int]:
    return flat_slot_mapping(chunks, block_size)[: row + 1]
