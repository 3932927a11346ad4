"""The range is as wide below zero as above it, as in Q4_0."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.quantize import LARGEST_QUANT, Q4Block

HINT = "This block has a minimum of its own. Is it always the largest weight with a minus?"


def quantize_block(weights: Seq[float]) -> Q4Block:
    largest = max(map(abs, weights))
    scale = 2 * largest / LARGEST_QUANT
    if scale == 0.0:
        return Q4Block(0.0, 0.0, [0] * len(weights))
    return Q4Block(scale, -largest, [round((weight + largest) / scale) for weight in weights])
