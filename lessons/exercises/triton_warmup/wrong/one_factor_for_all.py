"""A tensor's name is its first number, and the factor is there."""

from minivllm.kernels.mode import tl, triton

HINT = "factors is an address. At which address is the factor of row 3?"


@triton.jit
def scale_rows_kernel(x, factors, out, x_stride, out_stride, size, CHUNK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    is_real = columns < size
    numbers = tl.load(x + row * x_stride + columns, mask=is_real, other=0.0)
    factor = tl.load(factors)
    tl.store(out + row * out_stride + columns, numbers * factor, mask=is_real)
