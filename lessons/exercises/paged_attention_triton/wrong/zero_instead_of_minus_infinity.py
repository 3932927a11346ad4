"""Positions that are not real have score 0."""

from minivllm.kernels.attention import decode_naive as engine
from minivllm.kernels.mode import tl, triton

HINT = "exp2(0) is 1, so a position that does not exist gets weight. Which score gives weight 0?"

_right = engine.softmax_update


@triton.jit
def softmax_update(scores, running_max, running_sum):
    return _right(tl.where(scores == float("-inf"), 0.0, scores), running_max, running_sum)
