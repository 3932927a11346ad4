"""Keys that are not loaded score 0."""

from minivllm.kernels.attention import decode_naive as engine
from minivllm.kernels.mode import tl, triton

HINT = "exp2(0) is 1: a position that is not there has weight. Which score has none?"

_right = engine.softmax_update


@triton.jit
def softmax_update(scores, running_max, running_sum):
    return _right(tl.where(scores == float("-inf"), 0.0, scores), running_max, running_sum)
