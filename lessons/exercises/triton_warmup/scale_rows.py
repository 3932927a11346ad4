"""A first Triton kernel: multiply each row of a matrix by a number of its own.

    x                factors      out
    1  2  3    *     10      =    10  20  30
    4  5  6           2            8  10  12

The engine's kernels have the same parts: programs, offsets by strides, masked loads and stores. For
example, a row of int8 keys is multiplied by the scale of its token in this way.
"""

import torch

from minivllm.kernels.mode import tl, triton

CHUNK = 8
"""How many columns one program computes. A real kernel takes about a thousand."""


@triton.jit
def scale_rows_kernel(
    x,  # [num_rows, size]
    factors,  # [num_rows]
    out,  # [num_rows, size]
    x_stride,  # from a row of x to the next, in numbers
    out_stride,  # the same for out
    size,
    CHUNK: tl.constexpr,
):
    """Program (row, chunk): up to CHUNK neighbouring columns of one row."""
    row, chunk = tl.program_id(0), tl.program_id(1)
    columns = chunk * CHUNK + tl.arange(0, CHUNK)
    is_real = columns < size
    numbers = tl.load(x + row * x_stride + columns, mask=is_real, other=0.0)
    factor = tl.load(factors + row)
    tl.store(out + row * out_stride + columns, numbers * factor, mask=is_real)


def scale_rows(x: torch.Tensor, factors: torch.Tensor, out: torch.Tensor) -> None:
    """Write x[i] * factors[i] to out[i], for each row i.

    x, out: [num_rows, size]; the numbers of a row are contiguous, its distance to the next row is
        `stride(0)`
    factors: [num_rows], contiguous
    """
    num_rows, size = x.shape
    scale_rows_kernel[(num_rows, triton.cdiv(size, CHUNK))](
        x, factors, out, x.stride(0), out.stride(0), size, CHUNK=CHUNK
    )
