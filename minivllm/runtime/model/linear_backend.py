"""Three ways to multiply by weights, each with the memory layout that it reads fastest.

A decode step reads all weights for a handful of rows, so the layout of the weights decides the
speed of the step (`minivllm bench linear`):

    torch     `F.linear` over the plain weight
    onednn    oneDNN changes the layout once, when the weight is loaded
    cpu       our kernel (kernels/cpu/linear.c) reads the weights from the first byte to the last;
              a row's result is the same, bit for bit, in any batch

A weight in another layout *replaces* the plain weight, so it costs no extra memory. With tied
embeddings, the LM head also serves token lookups, which oneDNN's layout does not allow. So the
backend `onednn` keeps such a head plain.

Source of the name: vLLM `vllm/config/kernel.py` (`linear_backend`).
"""

from collections.abc import Callable
from functools import partial
from typing import Protocol

import torch
from torch import nn

from minivllm.config import LinearBackendName
from minivllm.errors import ConfigError
from minivllm.kernels.cpu.library import CpuKernelsError
from minivllm.kernels.cpu.ops import LANES
from minivllm.runtime.cpu.large_pages import LargePages
from minivllm.runtime.cpu.load import load_cpu_ops

PACKED_FOR_ROWS = 16
"""oneDNN chooses a layout for this number of rows; the layout works for other numbers too."""


class Matrix(Protocol):
    """A loaded weight, logically [out_features, in_features]."""

    def multiply(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """Return x @ weight.T + bias.

        x: [num_rows, in_features]; bias: [out_features] -> [num_rows, out_features]
        """

    def rows(self, indices: torch.Tensor) -> torch.Tensor:
        """Return rows of the weight; only for a matrix made with `is_table`.

        indices: [n] -> [n, in_features]
        """


MakeMatrix = Callable[[torch.Tensor, bool], Matrix]
"""(weight: [out_features, in_features], is_table: whether `rows` will be called)"""


class TorchMatrix:
    def __init__(self, weight: torch.Tensor, is_table: bool = False) -> None:
        self._weight = weight

    def multiply(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """See `Matrix.multiply`."""
        return nn.functional.linear(x, self._weight, bias)

    def rows(self, indices: torch.Tensor) -> torch.Tensor:
        """See `Matrix.rows`."""
        return nn.functional.embedding(indices, self._weight)


class OneDnnMatrix(TorchMatrix):
    """The weight in oneDNN's layout.

    A table stays plain, for lookups. Keeping both layouts would make a small model a fifth larger.
    """

    def __init__(self, weight: torch.Tensor, is_table: bool = False) -> None:
        super().__init__(
            weight if is_table else torch.ops.mkldnn._reorder_linear_weight(weight, PACKED_FOR_ROWS)
        )

    def multiply(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """See `Matrix.multiply`."""
        return torch.ops.mkldnn._linear_pointwise(x, self._weight, bias, "none", [], "")


class CpuMatrix:
    """The weight in panels of sixteen outputs, for `CpuOps.linear`.

    All matrices of a model are allocated one after another in `memory`.
    """

    def __init__(
        self, weight: torch.Tensor, is_table: bool = False, memory: LargePages | None = None
    ) -> None:
        self._ops = load_cpu_ops()
        self._out_features, in_features = weight.shape
        num_panels = -(-self._out_features // LANES)
        if missing := num_panels * LANES - self._out_features:
            weight = torch.cat((weight, weight.new_zeros(missing, in_features)))
        self._panels = (memory or LargePages()).empty(num_panels, in_features, LANES)
        self._panels.copy_(weight.view(num_panels, LANES, in_features).transpose(1, 2))

    def multiply(self, x: torch.Tensor, bias: torch.Tensor | None = None) -> torch.Tensor:
        """See `Matrix.multiply`."""
        output = self._ops.linear(x.contiguous(), self._panels)
        if output.shape[1] != self._out_features:
            output = output[:, : self._out_features]
        return output if bias is None else output.add_(bias)

    def rows(self, indices: torch.Tensor) -> torch.Tensor:
        """See `Matrix.rows`. An index past the last row may return zeros.

        The engine checks token ids when a request arrives.
        """
        return self._ops.rows_of_packed(self._panels, indices.contiguous())


def choose_linear_backend(
    name: LinearBackendName, dtype: torch.dtype, device: torch.device
) -> MakeMatrix:
    """Return the function that lays out weights of this dtype for this device.

    `auto` takes the first of `cpu`, `onednn` and `torch` that can run here. Raises `ConfigError` if
    the caller named a backend and that backend cannot run.
    """
    ways: dict[str, tuple[Callable[[torch.dtype, torch.device], str | None], MakeMatrix]] = {
        "cpu": (_why_no_cpu_kernels, partial(CpuMatrix, memory=LargePages())),
        "onednn": (_why_no_onednn, OneDnnMatrix),
        "torch": (lambda dtype, device: None, TorchMatrix),
    }
    for way, (why_not, make_matrix) in ways.items():
        if name in (way, "auto"):
            why = why_not(dtype, device)
            if why is None:
                return make_matrix
            if name == way:
                raise ConfigError(
                    f"linear_backend {name} cannot run here: {why} Use linear_backend='auto'."
                )
    raise ConfigError(f"linear_backend must be one of auto, {', '.join(ways)}; got {name!r}.")


def _why_no_cpu_kernels(dtype: torch.dtype, device: torch.device) -> str | None:
    if device.type != "cpu":
        return f"the device is {device.type}."
    if dtype != torch.float32:
        return (
            "the CPU kernels support float32 only, and the model is"
            f" {str(dtype).removeprefix('torch.')}."
        )
    try:
        is_fast = load_cpu_ops().linear_is_fast
    except CpuKernelsError as error:
        return str(error)
    return None if is_fast else "the processor or the C compiler does not support AVX-512."


def _why_no_onednn(dtype: torch.dtype, device: torch.device) -> str | None:
    if device.type != "cpu":
        return f"the device is {device.type}."
    mkldnn = torch.ops.mkldnn
    has_dtype = {
        torch.float32: lambda: True,
        torch.bfloat16: mkldnn._is_mkldnn_bf16_supported,
        torch.float16: mkldnn._is_mkldnn_fp16_supported,
    }
    if not torch.backends.mkldnn.is_available() or not has_dtype.get(dtype, lambda: False)():
        return f"oneDNN cannot multiply {str(dtype).removeprefix('torch.')} on this processor."
    return None
