"""The first token is the highest bit of its byte."""

from collections.abc import Collection

HINT = "Token 0 is the lowest bit of byte 0: 1, and not 128."


def bitmask(token_ids: Collection[int], vocab_size: int) -> bytes:
    mask = bytearray(-(-vocab_size // 8))
    for token_id in token_ids:
        mask[token_id // 8] |= 128 >> token_id % 8
    return bytes(mask)
