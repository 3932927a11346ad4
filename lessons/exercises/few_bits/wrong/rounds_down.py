"""A weight gets the step below it."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.quantize import LARGEST_QUANT, Q4Block

HINT = "int() cuts off the fraction. How far off can a weight be then, in steps?"


def quantize_block(weights: Seq[float]) -> Q4Block:
    minimum = min(weights)
    scale = (max(weights) - minimum) / LARGEST_QUANT
    if scale == 0.0:
        return Q4Block(0.0, minimum, [0] * len(weights))
    return Q4Block(scale, minimum, [int((weight - minimum) / scale) for weight in weights])
