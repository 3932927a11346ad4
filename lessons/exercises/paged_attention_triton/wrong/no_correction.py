"""What was summed up stays as it is."""

from minivllm.kernels.attention import decode_naive as engine
from minivllm.kernels.mode import tl, triton

HINT = (
    "A later tile has raised the largest score. In which units are the earlier sums? softmax_update"
    " returns a factor."
)

_right = engine.softmax_update


@triton.jit
def softmax_update(scores, running_max, running_sum):
    weights, correction, running_max, running_sum = _right(scores, running_max, running_sum)
    return weights, tl.full(correction.shape, 1.0, tl.float32), running_max, running_sum
