"""Paged attention as Triton kernels, each with a slow, simple reference implementation in torch.

The import path is `minivllm.kernels`. Triton is imported together with the first kernel: it may be
missing, and it takes its mode when it is imported (see `mode`). So what runs without Triton until
it needs a kernel writes `from minivllm import kernels`, and `kernels.decode_naive`.

    reference, reference_ops      what every kernel must compute
    attention/                    decode kernels from simple to fast, prefill, a kernel for both
    kv_write, rotary, norm_act    writing the cache, copying blocks, small decoder operations
    fused_moe                     the products of a mixture of experts, over sorted tokens
    launch_table                  warps, stages and tiles for each kernel, with measurements
    xray                          records which slots each program reads, and its softmax per tile
    compile_report                registers, spills and matrix instructions, without a GPU
    cpu/                          kernels for a CPU, in C
"""

from minivllm import lazy_names

__getattr__ = lazy_names("minivllm.kernels", {
    "INTERPRETED": "mode", "interpreter_builder": "mode", "trace": "xray",
    "choose_num_splits": "attention.decode_split", "decode_grouped": "attention.decode_grouped",
    "decode_naive": "attention.decode_naive", "add_rms_norm": "norm_act", "rms_norm": "norm_act",
    "silu_and_mul": "norm_act", "gelu_tanh_and_mul": "norm_act", "triton": "mode",
    "fused_experts": "fused_moe",
})  # fmt: skip


def interprets_here() -> bool:
    """Whether kernels are interpreted in this process. Imports Triton.

    False if Triton is missing, or if other code imported it in the mode that compiles.
    """
    try:
        return __getattr__("INTERPRETED")
    except ImportError:
        return False


# A process in the repository's root imports this folder as Hugging Face's package `kernels`.
if __name__ == "kernels":
    from .name_clash import give_way

    give_way()
