"""The decoder's small operations, in torch or fused into kernels (Triton's or the CPU's).

`DecoderOps` is an argument of the forward pass, so that engines with different options can share
one loaded model. Its defaults are torch operations, the reference implementations of the kernels.

Three pairs are worth fusing: the residual sum with the norm (hidden states are read and written
once, not twice), SiLU with the product, and the rotation with the cache write. The first norm,
without a residual sum, has a kernel too. Norms of single heads (Qwen3) are not worth a launch and
stay in torch.

Source: vLLM `vllm/model_executor/custom_op.py`, `CompilationConfig.custom_ops`.
"""

from collections.abc import Callable, Collection
from dataclasses import dataclass

import torch

from minivllm import kernels as triton_kernels
from minivllm.config import CustomOp
from minivllm.errors import ConfigError
from minivllm.kernels import reference_ops
from minivllm.runtime.cpu.load import load_cpu_ops
from minivllm.runtime.model.linear_backend import CpuMatrix, Matrix, TorchMatrix


@dataclass(frozen=True, slots=True)
class DecoderOps:
    """One implementation of each operation that `minivllm.kernels.reference_ops` defines."""

    rms_norm: Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor] = reference_ops.rms_norm
    add_rms_norm: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor] = (
        reference_ops.add_rms_norm
    )
    silu_and_mul: Callable[[torch.Tensor], torch.Tensor] = reference_ops.silu_and_mul
    gelu_tanh_and_mul: Callable[[torch.Tensor], torch.Tensor] = reference_ops.gelu_tanh_and_mul
    fused_topk: Callable[..., tuple[torch.Tensor, torch.Tensor]] | None = None
    fused_experts: Callable[..., torch.Tensor] | None = None
    """Without them, the router and the loop in decoder.py run, which are the references."""


TORCH_OPS = DecoderOps()
ALL_KERNELS: Collection[CustomOp] = ("fused_moe", "rms_norm", "rotary_and_cache", "silu_and_mul")
"""`rotary_and_cache` is the attention backend's: the others are the decoder's."""


def choose_kernels(
    asked: list[CustomOp] | None, attention_backend: str, device: torch.device
) -> Collection[CustomOp]:
    """Choose the operations of an engine that run as fused kernels.

    asked: `EngineConfig.custom_ops`; None means all, except where Triton interprets them
    attention_backend: the result of `choose_attention_backend`; Triton's and the CPU's kernels run
        only with an attention backend of the same kind

    Raises `ConfigError` if `asked` names kernels that cannot run.
    """
    is_cpu, is_triton = attention_backend == "cpu", attention_backend.startswith("triton")
    if asked is None:
        asked = ["all"] if is_cpu or (is_triton and device.type == "cuda") else ["none"]
    if asked == ["none"]:
        return ()
    if not (is_cpu or is_triton):
        raise ConfigError(
            f"custom_ops ({', '.join(asked)}) need attention_backend='triton' or 'cpu', but it is"
            f" {attention_backend!r}; change it, or leave custom_ops out."
        )
    return ALL_KERNELS if asked == ["all"] else asked


def make_ops(
    kernels: Collection[CustomOp], attention_backend: str, matrix: type[Matrix] = TorchMatrix
) -> DecoderOps:
    """Return the decoder's operations.

    kernels: the result of `choose_kernels`; matrix: of the model's weights
    """
    if not kernels:
        return TORCH_OPS
    module = load_cpu_ops() if attention_backend == "cpu" else triton_kernels
    activations = ("silu_and_mul", "gelu_tanh_and_mul")
    names = {"rms_norm": ("rms_norm", "add_rms_norm"), "silu_and_mul": activations}
    if attention_backend == "cpu" and matrix is CpuMatrix:
        names["fused_moe"] = ("fused_topk", "fused_experts")
    elif attention_backend != "cpu" and matrix is TorchMatrix:
        names["fused_moe"] = ("fused_experts",)
    chosen = [name for kernel in kernels for name in names.get(kernel, ())]
    return DecoderOps(**{name: getattr(module, name) for name in chosen})
