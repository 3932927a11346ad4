"""The kernels for this machine's processor, ready to call; what the backends `cpu`, of attention and of linear layers, have in common.

Knows where they are kept, and nothing of what they compute. Easy to get wrong: the sentence for somebody who cannot have them. Only the
caller knows which option asked for them, so the reason is raised here and the sentence made there.
"""

from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.runtime.store.model_cache import default_cache_root


def load_cpu_ops() -> CpuOps:
    """The kernels, built if need be. Raises `CpuKernelsError`, whose text is a reason, where they cannot be had."""
    return CpuOps(load_cpu_library(default_cache_root() / "kernels"))
