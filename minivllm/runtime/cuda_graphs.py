"""Decode steps over tensors with fixed addresses, recorded as CUDA graphs and replayed.

A decode step of a small model is a few hundred launches of a few microseconds each. Python needs
more time to launch the kernels than the GPU to run them. A graph launches all of them in one call,
with fixed addresses and grids. So a step's inputs are written into the recorded tensors
(`static_inputs`), and the batch is padded to a recorded size. On a CPU, and with `enforce_eager`,
the same launches run one by one.

A row is one token, and the rows of a sequence with drafts have the same blocks. A layer writes the
keys of all rows before any row attends; a row's length hides the drafts after it.

Padding rows run through the model with stale tokens, and their results are discarded. With slot -1
and length 0, such a row writes nothing to the KV cache and reads no stale block id.

Source: vLLM `vllm/v1/worker/gpu_model_runner.py` (`capture_model`),
`vllm/compilation/cuda_graph.py`.
"""

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np
import torch

from minivllm.errors import ConfigError
from minivllm.runtime.input_batch import ModelInput
from minivllm.runtime.static_inputs import StaticInputs

Forward = Callable[[torch.Tensor, torch.Tensor, Any], torch.Tensor]
"""(token_ids, positions, metadata) -> hidden states

token_ids, positions: [num_tokens]; hidden states: [num_tokens, hidden_size]
"""


class StaticAttention(Protocol):
    """An attention backend that can run decode steps over tensors with fixed addresses."""

    static_inputs: StaticInputs
    """The tensors that the backend's kernels read, and the model's own inputs."""

    def static_metadata(self, num_rows: int) -> Any:
        """Return `forward`'s metadata for the first `num_rows` rows of `static_inputs`."""


MAX_ROWS_WITH_DRAFTS = 256
"""Larger steps with drafts run eagerly. The more rows, the less a graph saves: on an H100, a step of
64 rows takes 15.2 ms without a graph and 4.8 with one, of 256 rows 15.9 and 13.3 ms
(docs/use/performance.md).
"""


def max_num_rows(max_num_seqs: int, max_query_len: int) -> int:
    """Return the rows of the largest recorded step. Every batch without drafts fits."""
    return max(max_num_seqs, min(max_num_seqs * max_query_len, MAX_ROWS_WITH_DRAFTS))


def padded_sizes(max_num_rows: int) -> list[int]:
    """Return the numbers of rows to record, so dense that at most a fifth of a step is padding."""
    sizes = [1]
    while sizes[-1] < max_num_rows:
        power = 1 << (sizes[-1].bit_length() - 1)  # largest power of two <= size
        sizes.append(min(sizes[-1] + max(1, power // 4), max_num_rows))
    return sizes


class DecodeGraphs:
    """Runs steps of at most `max_query_len` tokens per sequence, padded to a few numbers of rows."""

    def __init__(
        self,
        attention: StaticAttention,
        forward: Forward,
        max_query_len: int,
        hidden_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """max_query_len: tokens of a sequence in a step, at most: 1, or 1 and its drafts"""
        self._inputs = attention.static_inputs
        self._max_query_len = max_query_len
        num_rows = len(self._inputs.on_device.token_ids)
        self._forward = forward
        self._device = device
        self._hidden = torch.zeros(num_rows, hidden_size, dtype=dtype, device=device)
        self._sizes = padded_sizes(num_rows)
        self._metadata = {size: attention.static_metadata(size) for size in self._sizes}
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._num_rows = 0

    def accepts(self, inputs: ModelInput) -> bool:
        """Whether no sequence has more tokens than `max_query_len`, and there are enough rows."""
        num_rows, starts = len(inputs.token_ids), inputs.attention.query_start_loc
        if num_rows == len(starts) - 1:  # one token each: most steps
            return True
        return num_rows <= self._sizes[-1] and int(np.diff(starts).max()) <= self._max_query_len

    def set_batch(self, inputs: ModelInput) -> None:
        """Write a step's inputs into the tensors that the graphs read."""
        self._num_rows = len(inputs.token_ids)
        self._inputs.set(inputs)

    def run(self) -> torch.Tensor:
        """Return the step's hidden states, [num_tokens, hidden_size], valid until the next call."""
        size = next(size for size in self._sizes if size >= self._num_rows)
        if size in self._graphs:
            self._graphs[size].replay()
        else:
            self._run_padded(size)
        return self._hidden[: self._num_rows]

    def _run_padded(self, size: int) -> None:
        """Run the launches that a graph records; they depend only on `size`."""
        rows = self._inputs.on_device
        hidden = self._forward(rows.token_ids[:size], rows.positions[:size], self._metadata[size])
        # Copy the result out of the memory pool, which all graphs share.
        self._hidden[:size].copy_(hidden)

    @torch.inference_mode()
    def capture(self) -> None:
        """Record a graph for each size.

        Call it before the first batch: all rows are padding then, so the KV cache stays untouched.
        Only one graph runs at a time, so all share the memory of the largest graph, which is
        recorded first. Raises `ConfigError` if there is not enough memory left.
        """
        pool = torch.cuda.graph_pool_handle()
        try:
            with torch.cuda.device(self._device):
                for size in reversed(self._sizes):
                    # The first launch compiles and loads a kernel, which is forbidden in a capture.
                    self._run_padded(size)
                    torch.cuda.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, pool=pool):
                        self._run_padded(size)
                    self._graphs[size] = graph
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                "The device has too little memory left to record CUDA graphs: lower"
                " gpu_memory_utilization, num_gpu_blocks_override or max_num_seqs, or set"
                " enforce_eager."
            ) from error
