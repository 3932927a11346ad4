"""arange begins where the program begins."""

from minivllm.kernels.mode import tl, triton

HINT = "Print columns in program (0, 1). Which columns should it have?"


@triton.jit
def scale_rows_kernel(x, factors, out, x_stride, out_stride, size, CHUNK: tl.constexpr):
    row = tl.program_id(0)
    columns = tl.arange(0, CHUNK)
    is_real = columns < size
    numbers = tl.load(x + row * x_stride + columns, mask=is_real, other=0.0)
    factor = tl.load(factors + row)
    tl.store(out + row * out_stride + columns, numbers * factor, mask=is_real)
