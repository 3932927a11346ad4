"""Load the CPU kernels, for the attention and linear backends `cpu`.

An error's message is only the reason: the caller knows which option asked for the kernels, and adds
the rest of the sentence.
"""

from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.runtime.paths import default_cache_root


def load_cpu_ops() -> CpuOps:
    """Load the kernels, building them if necessary. Raises `CpuKernelsError` if that fails."""
    return CpuOps(load_cpu_library(default_cache_root() / "kernels"))
