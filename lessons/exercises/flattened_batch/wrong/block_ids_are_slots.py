"""Block 7 begins at slot 7."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk, flat_positions

HINT = "Block 0 has four slots, so block 1 begins at slot 4. Where does block 7 begin?"


def flat_slot_mapping(chunks: Seq[ScheduledChunk], block_size: int) -> list[int]:
    return [
        one.block_table[position // block_size] + position % block_size
        for one in chunks
        for position in flat_positions([one])
    ]
