"""Entry i of the block table is block i."""

from minivllm.core.block_math import NOT_WRITTEN
from minivllm.core.request import Sequence

HINT = "Entry 0 of the table may be block 7. Which sequence owns block 0?"


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        NOT_WRITTEN if position < sequence.num_cached_tokens else position
        for position in range(start, start + num_tokens)
    ]
