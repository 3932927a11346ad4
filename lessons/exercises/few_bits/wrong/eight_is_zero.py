"""Quant 8 is in the middle and stands for 0.0, as in Q4_0."""

from minivllm.lessons.shown.quantize import Q4Block

HINT = "Q4_0 has no minimum, so its middle stands for 0.0. What does a quant of Q4_1 count from?"


def dequantize_block(block: Q4Block) -> list[float]:
    return [block.scale * (quant - 8) + block.minimum for quant in block.quants]
