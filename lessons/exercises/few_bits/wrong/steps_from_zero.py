"""Steps begin at 0.0, so the minimum is not used."""

from collections.abc import Sequence as Seq

from minivllm.lessons.shown.quantize import LARGEST_QUANT, Q4Block

HINT = "Where is quant 0 if all weights are between 10 and 11? Are any of the 16 values wasted?"


def quantize_block(weights: Seq[float]) -> Q4Block:
    scale = max(max(weights), 0.0) / LARGEST_QUANT
    if scale == 0.0:
        return Q4Block(0.0, 0.0, [0] * len(weights))
    return Q4Block(scale, 0.0, [max(0, round(weight / scale)) for weight in weights])
