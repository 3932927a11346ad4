"""size is how many numbers the tensor has."""

import torch

from minivllm.kernels.mode import triton
from minivllm.lessons.exercises.triton_warmup.scale_rows import CHUNK, scale_rows_kernel

HINT = "The kernel compares columns with size. How many columns has a row?"


def scale_rows(x: torch.Tensor, factors: torch.Tensor, out: torch.Tensor) -> None:
    num_rows, size = x.shape
    scale_rows_kernel[(num_rows, triton.cdiv(size, CHUNK))](
        x, factors, out, x.stride(0), out.stride(0), x.numel(), CHUNK=CHUNK
    )
