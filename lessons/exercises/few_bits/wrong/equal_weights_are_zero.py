"""A block without a range has nothing in it, so its minimum is 0."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.quantize import Q4Block
from minivllm.lessons.shown.quantize import quantize_block as right

HINT = "Equal weights need no steps. But what are they all equal to?"


def quantize_block(weights: Seq[float]) -> Q4Block:
    block = right(weights)
    return block if block.scale else Q4Block(0.0, 0.0, block.quants)
