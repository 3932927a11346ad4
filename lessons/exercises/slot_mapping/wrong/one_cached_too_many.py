"""The token at position num_cached_tokens is cached too."""

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.request import Sequence

HINT = (
    "Positions count from 0. With 4 cached tokens, which position is the first that is not cached?"
)


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        (
            NOT_WRITTEN
            if position <= sequence.num_cached_tokens
            else sequence.block_table[position // block_size].block_id * block_size
            + position % block_size
        )
        for position in range(start, start + num_tokens)
    ]
