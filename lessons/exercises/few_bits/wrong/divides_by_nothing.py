"""Every block has a range."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.quantize import LARGEST_QUANT, Q4Block

HINT = "If all weights are equal, how wide is the range? It is the divisor."


def quantize_block(weights: Seq[float]) -> Q4Block:
    minimum = min(weights)
    scale = (max(weights) - minimum) / LARGEST_QUANT
    return Q4Block(scale, minimum, [round((weight - minimum) / scale) for weight in weights])
