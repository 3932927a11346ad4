"""A row begins where the one before ends."""

from minivllm.kernels.mode import tl, triton

HINT = "x may be a part of a larger tensor. Which parameter says how far apart its rows are?"


@triton.jit
def scale_rows_kernel(x, factors, out, x_stride, out_stride, size, CHUNK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    is_real = columns < size
    numbers = tl.load(x + row * size + columns, mask=is_real, other=0.0)
    factor = tl.load(factors + row)
    tl.store(out + row * out_stride + columns, numbers * factor, mask=is_real)
