"""Scale and minimum are float32."""

import struct

from minivllm.lessons.shown.quantize import Q4Block
from minivllm.lessons.shown.quantize import pack_block as right

HINT = "How many bytes has your block? Of the 20, the quants take 16."


def pack_block(block: Q4Block) -> bytes:
    return struct.pack("<ff", block.scale, block.minimum) + right(block)[4:]
