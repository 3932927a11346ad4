"""A block that is only partly cached is written completely."""

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.request import Sequence

HINT = (
    "The last block of a fork can be partly cached. Where does the cached part end: at"
    " num_cached_tokens, or at the start of a block?"
)


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        (
            NOT_WRITTEN
            if position < sequence.num_cached_tokens // block_size * block_size
            else sequence.block_table[position // block_size].block_id * block_size
            + position % block_size
        )
        for position in range(start, start + num_tokens)
    ]
