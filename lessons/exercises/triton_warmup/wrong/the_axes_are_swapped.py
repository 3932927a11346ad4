"""Axis 0 is the chunk, and axis 1 the row."""

from minivllm.kernels.mode import tl, triton

HINT = "The grid is (rows, chunks). Which axis of it is the first?"


@triton.jit
def scale_rows_kernel(x, factors, out, x_stride, out_stride, size, CHUNK: tl.constexpr):
    row, chunk = tl.program_id(1), tl.program_id(0)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    is_real = columns < size
    numbers = tl.load(x + row * x_stride + columns, mask=is_real, other=0.0)
    factor = tl.load(factors + row)
    tl.store(out + row * out_stride + columns, numbers * factor, mask=is_real)
