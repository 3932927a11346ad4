"""The kernels for this machine's processor, ready to call: for the attention and linear backends
`cpu`.

Only the caller knows which option asked for the kernels, so the error here is a reason and the
caller makes the sentence.
"""

from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.runtime.paths import default_cache_root


def load_cpu_ops() -> CpuOps:
    """The kernels, built if need be. Raises `CpuKernelsError`, whose text is a reason, where they
    cannot be had.
    """
    return CpuOps(load_cpu_library(default_cache_root() / "kernels"))
