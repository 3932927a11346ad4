"""Two ways to multiply by weights, each with the memory layout that it reads fastest.

A decode step reads all weights for a handful of rows, so the layout of the weights decides the
speed of the step:

    torch     `F.linear` over the plain weight
    cpu       our kernel (kernels/cpu/linear.c) reads the weights from the first byte to the last;
              a row's result is the same, bit for bit, in any batch; stored weights (quantized or in
              half precision) keep their size in memory, and give the same bits as in float32

A weight in another layout *replaces* the plain weight, so it costs no extra memory.

Source of the name: vLLM `vllm/config/kernel.py` (`linear_backend`).
"""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from minivllm.config import LinearBackendName
from minivllm.errors import ConfigError
from minivllm.kernels.cpu.packed_matrix import PackedMatrix
from minivllm.runtime.cpu.large_pages import LargePages
from minivllm.runtime.cpu.load import load_cpu_ops, why_no_kernels
from minivllm.runtime.quantization.panels import pack
from minivllm.runtime.quantization.stored_weight import StoredWeight, join_rows, plain_weight

Weight = torch.Tensor | Sequence[StoredWeight]
"""[out_features, in_features], or its parts in the order of the outputs."""
_TYPICAL_ROWS = 16
"""For which MKL chooses the order of a weight."""


class TorchMatrix:
    """The plain weight; stored weights become float32.

    On a CPU with MKL, a float32 weight is in MKL's own order, in which it multiplies 2 to 16 rows
    up to 1.6 times as fast as in ours.

    With `rounds`, a weight in bfloat16 has inputs and results in float32. Unlike our kernels, torch
    also rounds the results.
    """

    def __init__(
        self,
        weight: Weight,
        is_read: bool = False,
        memory: LargePages | None = None,
        rounds: bool = False,
    ) -> None:
        """is_read: whether `rows` or `addresses` will be asked; such a weight is in `memory`"""
        if not isinstance(weight, torch.Tensor):
            weight = plain_weight(weight, torch.float32, torch.device("cpu"))
        self.weight, self._rounds, self._in_mkl_order = weight, rounds, None
        if weight.device.type != "cpu" or weight.dtype is not torch.float32:
            return
        if is_read:
            self.weight = (memory or LargePages()).empty(*weight.shape).copy_(weight)
        elif hasattr(torch.ops.mkl, "_mkl_linear"):
            self._in_mkl_order = torch.ops.mkl._mkl_reorder_linear_weight(weight, _TYPICAL_ROWS)
            self.weight = weight.new_empty(1).expand(weight.shape)  # only the shape is still needed

    def multiply(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return x @ weight.T + bias.

        x: [num_rows, in_features]; bias: [out_features] -> [num_rows, out_features]
        """
        if self._in_mkl_order is not None:
            # The last argument says that the order is the one for this number of rows; it suits all.
            return torch.ops.mkl._mkl_linear(x, self._in_mkl_order, self.weight, bias, len(x))
        if not self._rounds:
            return nn.functional.linear(x, self.weight, bias)
        output = nn.functional.linear(x.bfloat16(), self.weight).float()
        return output if bias is None else output.add_(bias)

    def rows(self, indices: torch.Tensor) -> torch.Tensor:
        """Return rows of the weight. indices: [n] -> [n, in_features]"""
        rows = nn.functional.embedding(indices, self.weight)
        return rows.float() if self._rounds else rows

    @property
    def num_bytes(self) -> int:
        """Memory of the weight."""
        return self.weight.numel() * self.weight.itemsize

    @property
    def addresses(self) -> list[int]:
        """Where `DecoderOps.fused_experts` finds the weight."""
        return [self.weight.data_ptr()]


class CpuMatrix:
    """The weight in panels of sixteen outputs, in the bits of the checkpoint, for `CpuOps.linear`.

    All matrices of a model are allocated one after another in `memory`.
    """

    def __init__(
        self,
        weight: Weight,
        is_read: bool = False,
        memory: LargePages | None = None,
        rounds: bool = False,
    ) -> None:
        """rounds: whether inputs are rounded to bfloat16"""
        self._ops, self.rounds = load_cpu_ops(), rounds
        is_plain = isinstance(weight, torch.Tensor)
        parts = join_rows([StoredWeight.of_tensor(weight)] if is_plain else weight)
        memory = memory or LargePages()
        self.packed = PackedMatrix([pack(part, memory) for part in parts], parts[0].in_features)

    def multiply(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        output = self._ops.linear(x.contiguous(), self.packed, self.rounds)
        return output if bias is None else output.add_(bias)

    def rows(self, indices: torch.Tensor) -> torch.Tensor:
        """An index past the last row may return zeros: the engine checks ids on arrival."""
        return self._ops.rows_of_packed(self.packed, indices.contiguous())

    @property
    def num_bytes(self) -> int:
        return self.packed.num_bytes

    @property
    def addresses(self) -> list[int]:
        return self.packed.fields


Matrix = TorchMatrix | CpuMatrix
"""A loaded weight, logically [out_features, in_features]."""


def activation_dtype(dtype: torch.dtype, device: torch.device) -> torch.dtype:
    """Return the dtype of everything between the matrices, for a model of this dtype.

    With bfloat16 on a CPU, only matrix products are faster. So all other operations are float32,
    and a product rounds its input.
    """
    on_cpu = device.type == "cpu"
    return torch.float32 if on_cpu and dtype == torch.bfloat16 else dtype


def choose_linear_backend(
    name: LinearBackendName, dtype: torch.dtype, device: torch.device
) -> Callable[[Weight, bool], Matrix]:
    """Return the function that lays out weights of this dtype: (weight, is_read) -> matrix.

    `auto` takes `cpu`, or `torch` if that cannot run here. Raises `ConfigError` if the caller named
    a backend and that backend cannot run.
    """
    rounds, on_cpu = activation_dtype(dtype, device) != dtype, device.type == "cpu"
    why_not = None if on_cpu else f"the device is {device.type}."
    if on_cpu and name in ("auto", "cpu") and (why_not := _why_no_cpu_kernels(dtype)) is None:
        return partial(CpuMatrix, memory=LargePages(), rounds=rounds)
    if name == "cpu":
        raise ConfigError(
            f"linear_backend {name} cannot run here: {why_not} Use linear_backend='auto'."
        )
    return partial(TorchMatrix, memory=LargePages(), rounds=rounds)


def _why_no_cpu_kernels(dtype: torch.dtype) -> str | None:
    if dtype not in (torch.float32, torch.bfloat16):
        found = str(dtype).removeprefix("torch.")
        return f"the CPU kernels support float32 and bfloat16, and the model is {found}."
    return why_no_kernels()
