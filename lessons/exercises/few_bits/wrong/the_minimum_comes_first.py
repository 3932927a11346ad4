"""The minimum is before the scale."""

import struct

from minivllm.lessons.shown.quantize import Q4Block
from minivllm.lessons.shown.quantize import pack_block as right

HINT = "The first two bytes are one of two numbers. Which of them is it?"


def pack_block(block: Q4Block) -> bytes:
    return struct.pack("<ee", block.minimum, block.scale) + right(block)[4:]
