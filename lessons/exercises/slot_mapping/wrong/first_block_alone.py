"""A token's slot is its position modulo the block size, in the sequence's one block."""

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.request import Sequence

HINT = "A sequence has several blocks. Which block holds the fifth token, if a block holds four?"


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        (
            NOT_WRITTEN
            if position < sequence.num_cached_tokens
            else sequence.block_table[0].block_id * block_size + position % block_size
        )
        for position in range(start, start + num_tokens)
    ]
