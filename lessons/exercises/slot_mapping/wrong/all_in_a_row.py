"""A sequence's blocks are contiguous, so the first block gives the place of every token."""

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.request import Sequence

HINT = "The table is [7, 2]. Which slot comes after the last slot of block 7, and whose is it?"


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        (
            NOT_WRITTEN
            if position < sequence.num_cached_tokens
            else sequence.block_table[0].block_id * block_size + position
        )
        for position in range(start, start + num_tokens)
    ]
