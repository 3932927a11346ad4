"""Block b begins at slot b."""

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.request import Sequence

HINT = "Block 1 begins after the slots of block 0. How many slots does block 0 have?"


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        (
            NOT_WRITTEN
            if position < sequence.num_cached_tokens
            else sequence.block_table[position // block_size].block_id + position % block_size
        )
        for position in range(start, start + num_tokens)
    ]
