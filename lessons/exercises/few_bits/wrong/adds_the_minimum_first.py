"""The minimum is counted in steps, too."""

from minivllm.lessons.shown.quantize import Q4Block

HINT = "The minimum is a weight, not a number of steps. What does quant 0 stand for?"


def dequantize_block(block: Q4Block) -> list[float]:
    return [block.scale * (quant + block.minimum) for quant in block.quants]
