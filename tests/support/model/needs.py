"""What a test needs of the machine: without it, the test skips and says so in one sentence."""

import pytest

from minivllm.kernels.cpu.library import CpuKernelsError
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.runtime.cpu.load import load_cpu_ops

NO_TRITON = "no Triton: its kernels are left out"
NO_COMPILER = "no C compiler: the kernels in C are left out"

try:
    from minivllm.kernels.mode import INTERPRETED
except ModuleNotFoundError:
    HAS_TRITON, INTERPRETED = False, True
else:
    HAS_TRITON = True

interpreted = pytest.mark.skipif(
    not (HAS_TRITON and INTERPRETED),
    reason="kernels are compiled here, and this test is on the CPU" if HAS_TRITON else NO_TRITON,
)
# for a test whose tensors are on `paged_cases.DEVICE`
without_triton = pytest.mark.skipif(not HAS_TRITON, reason=NO_TRITON)
on_any_device = without_triton if INTERPRETED else pytest.mark.gpu


def cpu_ops() -> CpuOps:
    """The kernels in C, which the first call on a machine builds."""
    try:
        return load_cpu_ops()
    except CpuKernelsError:
        pytest.skip(NO_COMPILER)
