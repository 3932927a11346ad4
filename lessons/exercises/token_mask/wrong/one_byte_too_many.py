"""There is always one byte more than full ones."""

from collections.abc import Collection

from minivllm.structured_output.reference import bitmask as right

HINT = "8 tokens need 1 byte, and 9 tokens need 2. How do you round up?"


def bitmask(token_ids: Collection[int], vocab_size: int) -> bytes:
    return right(token_ids, vocab_size).ljust(vocab_size // 8 + 1, b"\0")
