"""Pointers move along, and the mask guards the store."""

from minivllm.kernels.mode import tl
from minivllm.lessons.exercises.triton_warmup.scale_rows import CHUNK, scale_rows_kernel


def scale_rows_kernel_(x, factors, out, x_stride, out_stride, size, CHUNK):
    x += tl.program_id(0) * x_stride
    out += tl.program_id(0) * out_stride
    first = tl.program_id(1) * CHUNK
    num_left = size - first
    columns = tl.arange(0, CHUNK)
    numbers = tl.load(x + first + columns, mask=columns < num_left)
    scaled = tl.load(factors + tl.program_id(0)) * numbers
    tl.store(out + first + columns, scaled, mask=columns < num_left)


def scale_rows(x, factors, out):
    size = x.shape[1]
    grid = (len(x), (size + CHUNK - 1) // CHUNK)
    kernel = scale_rows_kernel[grid]
    kernel(
        x, factors, out, x_stride=x.stride()[0], out_stride=out.stride()[0], size=size, CHUNK=CHUNK
    )
