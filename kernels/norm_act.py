"""RMS norm, with the residual sum in the same pass, and SiLU-and-multiply.

Both are memory-bandwidth-bound: they do few operations per number. A separate residual sum and norm
read and write the hidden states twice; the fused kernel does so once. Sums are float32 for every
dtype.

`tl.arange` needs a power of two, which many hidden sizes are not (576, 896). So the kernels mask
the padding in the loads, and divide by the real size for the mean.

Source: vLLM `vllm/model_executor/layers/layernorm.py` (`fused_add_rms_norm`), `activation.py`
(`SiluAndMul`).
"""

import torch

from minivllm.kernels.mode import tl, triton

ACTIVATION_CHUNK = 1024
"""How many numbers of a row one program of `silu_and_mul` computes."""


@triton.jit
def rms_norm_kernel(
    x,  # [num_rows, size]; `residual` and `out` like it, `out` contiguous
    residual,
    weight,  # [size]
    out,
    x_stride,
    residual_stride,
    size,
    eps,
    HAS_RESIDUAL: tl.constexpr,
    SIZE_PADDED: tl.constexpr,
):
    """Program (row)."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, SIZE_PADDED)
    is_real = columns < size
    numbers = tl.load(x + row * x_stride + columns, mask=is_real, other=0.0)
    if HAS_RESIDUAL:
        pointers = residual + row * residual_stride + columns
        # Compute the norm of the rounded sum: the rounded sum is what the next layer adds to.
        total = numbers.to(tl.float32) + tl.load(pointers, mask=is_real, other=0.0).to(tl.float32)
        numbers = total.to(residual.dtype.element_ty)
        tl.store(pointers, numbers, mask=is_real)
    numbers = numbers.to(tl.float32)
    scale = tl.rsqrt(tl.sum(numbers * numbers, 0) / size + eps)
    w = tl.load(weight + columns, mask=is_real, other=0.0).to(tl.float32)
    tl.store(
        out + row * size + columns, (numbers * scale * w).to(out.dtype.element_ty), mask=is_real
    )


def rms_norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    """See `minivllm.kernels.reference_ops.rms_norm`."""
    return _launch_rms_norm(x, None, weight, eps)


def add_rms_norm(
    x: torch.Tensor, residual: torch.Tensor, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    """See `minivllm.kernels.reference_ops.add_rms_norm`: `residual` is changed in place."""
    return _launch_rms_norm(x, residual, weight, eps)


def _launch_rms_norm(
    x: torch.Tensor, residual: torch.Tensor | None, weight: torch.Tensor, eps: float
) -> torch.Tensor:
    num_rows, size = x.shape
    out = torch.empty(num_rows, size, dtype=x.dtype, device=x.device)
    size_padded = triton.next_power_of_2(size)
    stream = x if residual is None else residual
    rms_norm_kernel[(num_rows,)](
        x,
        stream,
        weight,
        out,
        x.stride(0),
        stream.stride(0),
        size,
        eps,
        HAS_RESIDUAL=residual is not None,
        SIZE_PADDED=size_padded,
        num_warps=min(max(size_padded // 256, 1), 16),  # about 8 numbers per thread
    )
    return out


@triton.jit
def silu_and_mul_kernel(
    gate_up,  # [num_rows, 2 * size]
    out,  # [num_rows, size] contiguous
    gate_up_stride,
    size,
    CHUNK: tl.constexpr,
    GELU: tl.constexpr,
):
    """Program (row, chunk)."""
    row = tl.program_id(0).to(tl.int64)
    columns = tl.program_id(1) * CHUNK + tl.arange(0, CHUNK)
    is_real = columns < size
    pointers = gate_up + row * gate_up_stride + columns
    gate = tl.load(pointers, mask=is_real, other=0.0).to(tl.float32)
    up = tl.load(pointers + size, mask=is_real, other=0.0).to(tl.float32)
    power = gate
    if GELU:  # (1 + tanh(y)) / 2 = 1 / (1 + e^-2y), and 2y = 2 sqrt(2 / pi) (g + 0.044715 g^3)
        power = gate * (1.5957691216057308 + 0.07135481282 * gate * gate)
    activated = gate / (1.0 + tl.exp(-power)) * up
    tl.store(out + row * size + columns, activated.to(out.dtype.element_ty), mask=is_real)


def silu_and_mul(gate_up: torch.Tensor, gelu: bool = False) -> torch.Tensor:
    """See `minivllm.kernels.reference_ops.silu_and_mul`."""
    num_rows, size = gate_up.shape[0], gate_up.shape[1] // 2
    out = torch.empty(num_rows, size, dtype=gate_up.dtype, device=gate_up.device)
    silu_and_mul_kernel[(num_rows, triton.cdiv(size, ACTIVATION_CHUNK))](
        gate_up, out, gate_up.stride(0), size, CHUNK=ACTIVATION_CHUNK, GELU=gelu
    )
    return out


def gelu_tanh_and_mul(gate_up: torch.Tensor) -> torch.Tensor:
    """See `minivllm.kernels.reference_ops.gelu_tanh_and_mul`."""
    return silu_and_mul(gate_up, gelu=True)
