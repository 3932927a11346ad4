"""Paged attention as Triton kernels, each with a slow, obvious reference implementation in torch.

The import path is `minivllm.kernels`. The kernels know tensors, and nothing of sequences,
schedulers or models. Nothing here needs Triton until a kernel is imported.

    reference, reference_ops      what every kernel must compute
    attention/                    decode kernels from the plain one to the fast one, chunks, and
                                  both in one launch
    kv_write, rotary, norm_act    writing the cache, copying blocks, and the decoder's small
                                  operations
    launch_table                  warps, stages and tiles for each kernel, and how they were
                                  measured
    trace (from xray)             which program reads which slots, and what its softmax is after
                                  each tile
    compile_report                registers, spills and matrix instructions, without a GPU
    cpu/                          the same for a CPU, in C
"""

from typing import Any


def __getattr__(name: str) -> Any:
    """`minivllm.kernels.trace`, imported with Triton when it is asked for."""
    if name == "trace":
        from minivllm.kernels.xray import trace

        return trace
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


# a process started in the repository's root took this folder for Hugging Face's package
if __name__ == "kernels":
    from .name_clash import give_way

    give_way()
