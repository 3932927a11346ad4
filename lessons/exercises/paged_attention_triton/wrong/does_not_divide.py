"""acc is the output."""

from minivllm.kernels.attention import decode_naive as engine
from minivllm.kernels.mode import tl, triton

HINT = "The weights have not been divided by their sum. Is this a weighted mean already?"

_right = engine.softmax_update


@triton.jit
def softmax_update(scores, running_max, running_sum):
    weights, correction, running_max, running_sum = _right(scores, running_max, running_sum)
    return weights, correction, running_max, tl.full(running_sum.shape, 1.0, tl.float32)
