"""Quants 0 and 1 are in the first byte, 2 and 3 in the next."""

import struct

from minivllm.lessons.shown.quantize import Q4Block

HINT = "Which quant shares a byte with quant 0? A kernel reads 16 neighbours with one mask."


def pack_block(block: Q4Block) -> bytes:
    quants = zip(block.quants[::2], block.quants[1::2], strict=True)
    pairs = bytes(first | second << 4 for first, second in quants)
    return struct.pack("<ee", block.scale, block.minimum) + pairs
