"""Every token that goes through the model is written."""

from minivllm.core.request import Sequence

HINT = (
    "Other sequences read that block, and its content is already correct. How do you know that a"
    " token is cached?"
)


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        sequence.block_table[position // block_size].block_id * block_size + position % block_size
        for position in range(start, start + num_tokens)
    ]
