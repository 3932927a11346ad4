"""The machine's best speeds: memory reads and floating-point operations per second.

Torch measures both in the same process and with the same number of threads as the engine. The data
to read is many times larger than the largest cache. The fastest of several runs counts, because
disturbances only make a run slower.
"""

from collections.abc import Callable
from dataclasses import dataclass

import torch

from minivllm.clock import Clock

READ_BYTES = 256 << 20
MATRIX_SIZE = 1024
NUM_RUNS = 9


@dataclass(frozen=True, slots=True)
class MachineSpeed:
    read_gb_per_s: float
    gemm_gflop_per_s: float

    def seconds_to_read(self, num_bytes: int) -> float:
        return num_bytes / self.read_gb_per_s / 1e9


def measure_machine_speed(dtype: torch.dtype, device: torch.device, clock: Clock) -> MachineSpeed:
    """Time a sum over `READ_BYTES` and a product of two square matrices. Takes about a second."""
    numbers = torch.ones(READ_BYTES // 4, device=device)
    a, b = (torch.randn(MATRIX_SIZE, MATRIX_SIZE, device=device).to(dtype) for _ in range(2))
    read = _fastest(lambda: numbers.sum(), clock, device)
    multiply = _fastest(lambda: a @ b, clock, device)
    return MachineSpeed(READ_BYTES / read / 1e9, 2 * MATRIX_SIZE**3 / multiply / 1e9)


def _fastest(work: Callable[[], torch.Tensor], clock: Clock, device: torch.device) -> float:
    runs = []
    for _ in range(NUM_RUNS):
        started = clock.now()
        work()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        runs.append(clock.now() - started)
    return min(runs)
