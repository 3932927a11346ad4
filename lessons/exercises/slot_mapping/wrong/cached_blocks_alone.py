"""A block that is cached in part is written whole."""

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.request import Sequence

HINT = (
    "A fork's last block may be cached in part. Where does the cache end: at num_cached_tokens, or"
    " at a block's beginning?"
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
