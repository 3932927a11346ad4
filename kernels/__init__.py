"""Paged attention as Triton kernels, each with a slow, simple reference implementation in torch.

The import path is `minivllm.kernels`. Triton is imported together with the first kernel.

    reference, reference_ops      what every kernel must compute
    attention/                    decode kernels from simple to fast, prefill, a kernel for both
    kv_write, rotary, norm_act    writing the cache, copying blocks, small decoder operations
    launch_table                  warps, stages and tiles for each kernel, with measurements
    trace (from xray)             records which slots each program reads, and its softmax per tile
    compile_report                registers, spills and matrix instructions, without a GPU
    cpu/                          kernels for a CPU, in C
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """Import `trace`, and with it Triton, on first use."""
    if name == "trace":
        from minivllm.kernels.xray import trace

        return trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# A process in the repository's root imports this folder as Hugging Face's package `kernels`.
if __name__ == "kernels":
    from .name_clash import give_way

    give_way()
