"""The blocks of a sequence are neighbours in memory."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk, flat_positions

HINT = "The table is [7, 2]. Is block 2 behind block 7?"


def flat_slot_mapping(chunks: Seq[ScheduledChunk], block_size: int) -> list[int]:
    return [
        one.block_table[0] * block_size + position
        for one in chunks
        for position in flat_positions([one])
    ]
