"""The device's clock, and its best speeds: memory reads and floating-point operations per second.

Torch measures both in the same process and with the same number of threads as the engine. The data
to read is many times larger than the largest cache. The fastest of several runs counts, because
disturbances only make a run slower.
"""

import timeit
from collections.abc import Callable

import torch

READ_BYTES = 256 << 20
MATRIX_SIZE = 1024
NUM_RUNS = 9


def waiting_clock(now: Callable[[], float], device: torch.device) -> Callable[[], float]:
    """Return a clock that waits for all work on `device` before it reads `now`.

    Otherwise a part only gets the time in which its GPU work is launched.
    """

    def wait_and_look() -> float:
        torch.cuda.synchronize(device)
        return now()

    return wait_and_look if device.type == "cuda" else now


def measure_machine_speed(
    dtype: torch.dtype, device: torch.device, now: Callable[[], float]
) -> dict[str, float]:
    """Time a sum over `READ_BYTES` and a product of two square matrices by `waiting_clock`."""

    def fastest(work: Callable[[], torch.Tensor]) -> float:
        return min(timeit.repeat(work, timer=now, repeat=NUM_RUNS, number=1))

    numbers = torch.ones(READ_BYTES // 4, device=device)
    a, b = (torch.randn(MATRIX_SIZE, MATRIX_SIZE, device=device).to(dtype) for _ in range(2))
    return {
        "read_gb_per_s": READ_BYTES / fastest(numbers.sum) / 1e9,
        "gemm_gflop_per_s": 2 * MATRIX_SIZE**3 / fastest(lambda: a @ b) / 1e9,
    }
