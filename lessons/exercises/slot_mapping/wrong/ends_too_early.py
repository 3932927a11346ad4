"""num_tokens is the position where the chunk ends."""

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.request import Sequence

HINT = (
    "num_tokens is a count, not an end position. How many slots do you return for 4 tokens from"
    " position 2 on?"
)


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        (
            NOT_WRITTEN
            if position < sequence.num_cached_tokens
            else sequence.block_table[position // block_size].block_id * block_size
            + position % block_size
        )
        for position in range(start, num_tokens)
    ]
