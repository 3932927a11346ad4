"""The first half of the block is in the high four bits."""

import struct

from minivllm.lessons.shown.quantize import Q4Block

HINT = "Mask the first byte of the quants with 15. Is that quant 0 or quant 16?"


def pack_block(block: Q4Block) -> bytes:
    quants = zip(block.quants[:16], block.quants[16:], strict=True)
    pairs = bytes(first << 4 | second for first, second in quants)
    return struct.pack("<ee", block.scale, block.minimum) + pairs
