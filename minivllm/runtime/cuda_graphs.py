"""Decode steps over tensors that stay where they are, recorded as CUDA graphs and replayed.

A decode step of a small model is a few hundred launches of a few microseconds each, and Python
takes longer to make them than the GPU to run them. A graph is recorded once and makes them all in
one call. It repeats addresses and grids, so the step's inputs are written into the tensors that it
was recorded with, and the batch is padded to a size that was recorded.

Knows the sizes of a batch and when a step is one of decodes alone; `static_inputs` fills the
tensors. Where there is no graph the same launches are made one by one over the same tensors: on a
CPU, and with `enforce_eager`.

The easy thing to get wrong is the padding. Its rows run through the model like any other, with an
old token and an old position, and what they compute is thrown away; but their slot is -1 and their
length is 0, so in the KV cache nothing of theirs is written, and none of the block ids that an
earlier batch left in the row is followed.

Source: vLLM `vllm/v1/worker/gpu_model_runner.py` (`capture_model`),
`vllm/compilation/cuda_graph.py`.
"""

from collections.abc import Callable
from typing import Any, Protocol

import torch

from minivllm.errors import ConfigError
from minivllm.runtime.input_batch import ModelInput
from minivllm.runtime.static_inputs import StaticInputs

Forward = Callable[[torch.Tensor, torch.Tensor, Any], torch.Tensor]
"""(token_ids: [num_tokens], positions: [num_tokens], metadata) -> hidden states [num_tokens,
hidden_size]
"""


class StaticAttention(Protocol):
    """What an attention backend adds to run steps of decodes over tensors that keep their
    addresses.
    """

    static_inputs: StaticInputs
    """The tensors that its kernels read, and the model's own inputs beside them."""

    def static_metadata(self, num_rows: int) -> Any:
        """Metadata for `forward` of a step of at most `num_rows` decodes, over the first rows of
        `static_inputs`.
        """


def padded_sizes(max_num_seqs: int) -> list[int]:
    """The batch sizes that are recorded: steps grow with the size, so that at most a fifth of a
    batch is padding.
    """
    sizes = [1]
    while sizes[-1] < max_num_seqs:
        power = 1 << (sizes[-1].bit_length() - 1)  # the power of two at or below
        sizes.append(min(sizes[-1] + max(1, power // 4), max_num_seqs))
    return sizes


class DecodeGraphs:
    """Steps in which every sequence has one token, padded to a few sizes."""

    def __init__(
        self,
        attention: StaticAttention,
        forward: Forward,
        max_num_seqs: int,
        hidden_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        self._inputs = attention.static_inputs
        self._forward = forward
        self._device = device
        self._hidden = torch.zeros(max_num_seqs, hidden_size, dtype=dtype, device=device)
        self._sizes = padded_sizes(max_num_seqs)
        self._metadata = {size: attention.static_metadata(size) for size in self._sizes}
        self._graphs: dict[int, torch.cuda.CUDAGraph] = {}
        self._num_seqs = 0

    @staticmethod
    def accepts(inputs: ModelInput) -> bool:
        """Whether every sequence of the step has one token. (Which step of its life that is makes
        no difference.)
        """
        return len(inputs.token_ids) == len(inputs.attention.num_computed_tokens)

    def set_batch(self, inputs: ModelInput) -> None:
        """Write a step's inputs into the tensors that graphs read."""
        self._num_seqs = len(inputs.token_ids)
        self._inputs.set(inputs)

    def run(self) -> torch.Tensor:
        """Hidden states of the batch that was set, [num_seqs, hidden_size]; good until the next
        call.
        """
        size = next(size for size in self._sizes if size >= self._num_seqs)
        if size in self._graphs:
            self._graphs[size].replay()
        else:
            self._run_padded(size)
        return self._hidden[: self._num_seqs]

    def _run_padded(self, size: int) -> None:
        """What a graph records: the launches depend on `size` and on nothing of the batch."""
        hidden = self._forward(
            self._inputs.token_ids[:size], self._inputs.positions[:size], self._metadata[size]
        )
        # One tensor for the results of all sizes, so that everything else in the graphs' pool can
        # be shared.
        self._hidden[:size].copy_(hidden)

    @torch.inference_mode()
    def capture(self) -> None:
        """Record a graph for each size. Before the first batch: all rows are padding, so the KV
        cache is not touched.

        The graphs share one pool of memory, which is safe because one runs at a time. The largest
        comes first and the others fit into what it took. Raises `ConfigError` if there is no memory
        left.
        """
        pool = torch.cuda.graph_pool_handle()
        try:
            with torch.cuda.device(self._device):
                for size in reversed(self._sizes):
                    # Kernels are compiled and loaded when they are first launched, which a capture
                    # forbids.
                    self._run_padded(size)
                    torch.cuda.synchronize()
                    graph = torch.cuda.CUDAGraph()
                    with torch.cuda.graph(graph, pool=pool):
                        self._run_padded(size)
                    self._graphs[size] = graph
        except torch.OutOfMemoryError as error:
            raise ConfigError(
                "There is no memory left on the device to record CUDA graphs: lower"
                " gpu_memory_utilization, num_gpu_blocks_override or max_num_seqs, or set"
                " enforce_eager."
            ) from error
