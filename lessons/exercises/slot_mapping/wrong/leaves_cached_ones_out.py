"""What is not written needs no entry."""

from minivllm.core.request import Sequence

HINT = (
    "The list has one entry for each token that goes through the model. To which token does your"
    " third one belong?"
)


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    return [
        sequence.block_table[position // block_size].block_id * block_size + position % block_size
        for position in range(start, start + num_tokens)
        if position >= sequence.num_cached_tokens
    ]
