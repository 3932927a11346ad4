"""Positions in a chunk are counted from the chunk's first token."""

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.request import Sequence

HINT = "The second chunk of a prompt begins at start. Where would your code write it?"


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        (
            NOT_WRITTEN
            if start + i < sequence.num_cached_tokens
            else sequence.block_table[i // block_size].block_id * block_size + i % block_size
        )
        for i in range(num_tokens)
    ]
