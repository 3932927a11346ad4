"""The mask ends with its last token."""

from collections.abc import Collection

HINT = "How many bytes has a mask that allows no token? A mask has a bit for refused tokens, too."


def bitmask(token_ids: Collection[int], vocab_size: int) -> bytes:
    number = sum(1 << token_id for token_id in token_ids)
    return number.to_bytes(-(-number.bit_length() // 8), "little")
