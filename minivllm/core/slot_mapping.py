"""Where a token's keys and values lie: the one rule that the whole engine shares.

Token at position p of a sequence lies in slot `block_table[p // block_size] * block_size + p % block_size`.
There is no second rule for prefill or decode. A token whose keys and values the prefix cache already
holds has slot `NOT_WRITTEN`: it goes through the model for its query alone.

This is the slow, obvious twin: the model runner computes the same in numpy for a whole batch, and the
invariants and tests use this one.
"""

from minivllm.core.request import Sequence

NOT_WRITTEN = -1
"""vLLM's PAD_SLOT_ID: the KV write skips such a token."""


def slot_mapping(sequence: Sequence, start: int, num_tokens: int, block_size: int) -> list[int]:
    """The slots that tokens [start, start + num_tokens) are written to."""
    # BEGIN SOLUTION slot-mapping
    return [
        NOT_WRITTEN
        if position < sequence.num_cached_tokens
        else sequence.block_table[position // block_size].block_id * block_size + position % block_size
        for position in range(start, start + num_tokens)
    ]
    # END SOLUTION
