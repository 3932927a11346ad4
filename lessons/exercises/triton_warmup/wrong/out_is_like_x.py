"""The output has the strides of the input."""

from minivllm.kernels.mode import tl, triton

HINT = "The caller chose where `out` is. Which parameter belongs to it?"


@triton.jit
def scale_rows_kernel(x, factors, out, x_stride, out_stride, size, CHUNK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    is_real = columns < size
    numbers = tl.load(x + row * x_stride + columns, mask=is_real, other=0.0)
    factor = tl.load(factors + row)
    tl.store(out + row * x_stride + columns, numbers * factor, mask=is_real)
