"""Sixteen values have sixteen steps between them."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.quantize import Q4Block

HINT = "A fence with 16 posts has how many gaps? Which quant does the largest weight get?"


def quantize_block(weights: Seq[float]) -> Q4Block:
    minimum = min(weights)
    scale = (max(weights) - minimum) / 16
    if max(weights) == minimum:
        return Q4Block(0.0, minimum, [0] * len(weights))
    return Q4Block(
        scale, minimum, [min(15, round((weight - minimum) / scale)) for weight in weights]
    )
