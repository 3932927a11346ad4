"""A row has size / CHUNK chunks, rounded down."""

import torch

from minivllm.lessons.exercises.triton_warmup.scale_rows import CHUNK, scale_rows_kernel

HINT = "A row of 11 columns has one full chunk. Who computes columns 8, 9 and 10?"


def scale_rows(x: torch.Tensor, factors: torch.Tensor, out: torch.Tensor) -> None:
    num_rows, size = x.shape
    scale_rows_kernel[(num_rows, size // CHUNK)](
        x, factors, out, x.stride(0), out.stride(0), size, CHUNK=CHUNK
    )
