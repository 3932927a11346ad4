"""There is a factor for each column."""

from minivllm.kernels.mode import tl, triton

HINT = "In the README's example, what happens to 4, 5 and 6? Is the number of factors that of rows?"


@triton.jit
def scale_rows_kernel(x, factors, out, x_stride, out_stride, size, CHUNK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    is_real = columns < size
    numbers = tl.load(x + row * x_stride + columns, mask=is_real, other=0.0)
    factor = tl.load(factors + columns, mask=is_real, other=0.0)
    tl.store(out + row * out_stride + columns, numbers * factor, mask=is_real)
