"""Load the CPU kernels, for the attention and linear backends `cpu`."""

from minivllm.kernels.cpu.library import CpuKernelsError, load_cpu_library
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.runtime.paths import default_cache_root

TIMES_SLOWER = "2 to 5 times as slow."


def load_cpu_ops() -> CpuOps:
    """Load the kernels, building them if necessary. Raises `CpuKernelsError` if that fails."""
    ops = CpuOps(load_cpu_library(default_cache_root() / "kernels"))
    if not ops.instructions:
        raise CpuKernelsError("the processor, or the compiler for it, does not know AVX2.")
    return ops


def why_no_kernels() -> str | None:
    """Return the reason, which is the end of the caller's sentence, if they cannot run here."""
    try:
        load_cpu_ops()
    except CpuKernelsError as error:
        return str(error)
    return None


def cost_of_no_kernels() -> str | None:
    """Return a sentence if they cannot run here: why, what to do, and what it costs."""
    why = why_no_kernels()
    return why and f"No CPU kernels: {why} Until then torch runs the model, {TIMES_SLOWER}"
