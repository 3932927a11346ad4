"""A token that is not written needs no entry in the list."""

from minivllm.core.request import Sequence

HINT = (
    "The list has one entry for each token that goes through the model. Which token does your third"
    " entry belong to?"
)


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        sequence.block_table[position // block_size].block_id * block_size + position % block_size
        for position in range(start, start + num_tokens)
        if position >= sequence.num_cached_tokens
    ]
