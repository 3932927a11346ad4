"""The decoder's small operations, in torch or fused into kernels (Triton's or the CPU's).

`DecoderOps` is an argument of the forward pass, so that engines with different options can share
one loaded model. Its defaults are torch operations, the reference implementations of the kernels.

Three pairs are worth fusing: the residual sum with the norm (hidden states are read and written
once, not twice), SiLU with the product, and the rotation with the cache write. The first norm,
without a residual sum, has a kernel too. Norms of single heads (Qwen3) are not worth a launch and
stay in torch.

Source: vLLM `vllm/model_executor/custom_op.py`, `CompilationConfig.custom_ops`.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from minivllm.config import CustomOp
from minivllm.errors import ConfigError
from minivllm.kernels import reference_ops


@dataclass(frozen=True, slots=True)
class DecoderOps:
    """One implementation of each operation that `minivllm.kernels.reference_ops` defines."""

    rms_norm: Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor] = reference_ops.rms_norm
    add_rms_norm: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor] = (
        reference_ops.add_rms_norm
    )
    silu_and_mul: Callable[[torch.Tensor], torch.Tensor] = reference_ops.silu_and_mul
    attention_rotates: bool = False
    """Whether the attention backend rotates queries and keys as it writes the cache."""


TORCH_OPS = DecoderOps()


def choose_ops(
    asked: list[CustomOp] | None, attention_backend: str, device: torch.device
) -> DecoderOps:
    """Choose the operations of an engine.

    asked: `EngineConfig.custom_ops`; None means all kernels, except where Triton interprets them
    attention_backend: the result of `choose_attention_backend`; Triton's and the CPU's kernels run
        only with an attention backend of the same kind

    Raises `ConfigError` if `asked` names kernels that cannot run.
    """
    is_cpu, is_triton = attention_backend == "cpu", attention_backend.startswith("triton")
    if asked is None:
        asked = ["all"] if is_cpu or (is_triton and device.type == "cuda") else ["none"]
    if asked == ["none"]:
        return TORCH_OPS
    if not (is_cpu or is_triton):
        raise ConfigError(
            f"custom_ops ({', '.join(asked)}) need attention_backend='triton' or 'cpu', but it is"
            f" {attention_backend!r}; change it, or leave custom_ops out."
        )
    if is_cpu:
        from minivllm.runtime.cpu.load import load_cpu_ops

        kernels = load_cpu_ops()
    else:
        from minivllm.kernels import norm_act as kernels

    chosen: dict[str, Any] = {}
    if _is_chosen("rms_norm", asked):
        chosen |= {"rms_norm": kernels.rms_norm, "add_rms_norm": kernels.add_rms_norm}
    if _is_chosen("silu_and_mul", asked):
        chosen["silu_and_mul"] = kernels.silu_and_mul
    if _is_chosen("rotary_and_cache", asked):
        chosen["attention_rotates"] = True
    return DecoderOps(**chosen)


def _is_chosen(name: CustomOp, asked: list[CustomOp]) -> bool:
    return name in asked or "all" in asked
