"""The first token of a step goes to the first block of the table."""

from collections.abc import Sequence as Seq

from minivllm.lessons.sketches.flat_batch import ScheduledChunk

HINT = "The first block has the tokens of earlier steps. What happens to their keys and values?"


def flat_slot_mapping(chunks: Seq[ScheduledChunk], block_size: int) -> list[int]:
    return [
        one.block_table[number // block_size] * block_size + number % block_size
        for one in chunks
        for number in range(one.num_tokens)
    ]
