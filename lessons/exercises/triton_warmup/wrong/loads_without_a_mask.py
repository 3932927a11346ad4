"""A number that is not stored does no harm."""

from minivllm.kernels.mode import tl, triton

HINT = "The load happens anyway. Whose memory is behind the last row?"


@triton.jit
def scale_rows_kernel(x, factors, out, x_stride, out_stride, size, CHUNK: tl.constexpr):
    row, chunk = tl.program_id(0), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    is_real = columns < size
    numbers = tl.load(x + row * x_stride + columns)
    factor = tl.load(factors + row)
    tl.store(out + row * out_stride + columns, numbers * factor, mask=is_real)
