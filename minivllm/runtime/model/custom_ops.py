"""The decoder's small operations: out of torch's, which is the plain way, or fused into kernels,
Triton's or the CPU's.

`DecoderOps` goes through the forward pass with the batch. Its defaults are torch operations, the
twins of the kernels: what the decoder computes is read there. `choose_ops` exchanges those that
`custom_ops` names. Knows nothing of layers.

Where fusing pays: the residual sum and the norm of it (hidden states are read and written once, not
twice), SiLU and the product, and rotation with the cache write. A norm alone is one operation in
torch too: its kernel is the one to read first, runs where no sum comes before it, and is not worth
a launch for the norms of heads, which stay in torch.

The easy thing to get wrong is to keep the choice in the decoder. One loaded model serves several
engines, on the same weights and with other options, so the choice belongs to the forward pass.

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
    """What each operation runs as; signatures and meaning as in
    `minivllm.kernels.reference_ops`.
    """

    rms_norm: Callable[[torch.Tensor, torch.Tensor, float], torch.Tensor] = reference_ops.rms_norm
    add_rms_norm: Callable[[torch.Tensor, torch.Tensor, torch.Tensor, float], torch.Tensor] = (
        reference_ops.add_rms_norm
    )
    silu_and_mul: Callable[[torch.Tensor], torch.Tensor] = reference_ops.silu_and_mul
    attention_rotates: bool = False
    """The attention backend turns queries and keys where it writes the cache:
    `rotary_and_cache`.
    """


TORCH_OPS = DecoderOps()


def choose_ops(
    asked: list[CustomOp] | None, attention_backend: str, device: torch.device
) -> DecoderOps:
    """The operations of an engine.

    asked: `EngineConfig.custom_ops`; None takes all kernels, and none where they would be
    interpreted
    attention_backend: the settled one, see `choose_attention_backend`: kernels run beside attention
    of their kind or not at all
    Raises `ConfigError` where kernels are asked for by name and cannot
    run.
    """
    is_cpu, is_triton = attention_backend == "cpu", attention_backend.startswith("triton")
    if asked is None:
        asked = ["all"] if is_cpu or (is_triton and device.type == "cuda") else ["none"]
    if asked == ["none"]:
        return TORCH_OPS
    if not (is_cpu or is_triton):
        raise ConfigError(
            f"custom_ops ({', '.join(asked)}) are kernels and go with attention_backend='triton' or"
            f" 'cpu', which is {attention_backend!r} here; change that, or leave custom_ops out."
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
