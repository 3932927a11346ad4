"""Decode steps over tensors with fixed addresses, recorded as CUDA graphs and replayed.

A decode step of a small model is a few hundred launches of a few microseconds each. Python needs
more time to launch the kernels than the GPU to run them. A graph launches all of them in one call,
with fixed addresses and grids. So a step's inputs are written into the recorded tensors
(`StaticInputs`), and the batch is padded to a recorded size. On a CPU, and with `enforce_eager`,
the same launches run one by one.

A row is one token, and the rows of a sequence with drafts have the same blocks. A layer writes the
keys of all rows before any row attends; a row's length hides the drafts after it.

Padding rows run through the model with stale tokens, and their results are discarded. With slot -1
and length 0, such a row writes nothing to the KV cache and reads no stale block id.

Source: vLLM `vllm/v1/worker/gpu_model_runner.py` (`capture_model`),
`vllm/compilation/cuda_graph.py`.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import torch

from minivllm.errors import ConfigError
from minivllm.runtime.input_batch import NOT_WRITTEN, ModelInput


class Rows(NamedTuple):
    """The rows of the tensor, [max_num_rows] each: as arrays on the host, or as device tensors."""

    token_ids: Any
    positions: Any
    slot_mapping: Any
    """-1 for padding, which is not written to the cache"""
    seq_lens: Any
    """int32, as the kernels need it; includes the row's token; 0 for padding"""
    changed_entries: Any
    """Indices into the flattened block tables."""
    changed_ids: Any
    """int32: the new block ids at these indices"""


class StaticInputs:
    """Inputs of steps of up to `max_num_rows` rows, one for each token; unused rows are padding.

    A copy to the device takes the host some ten microseconds, however small it is. So all small
    inputs are the rows of one tensor (`Rows`).

    Block tables are larger and hardly change: a sequence gets a new block every `block_size` steps.
    The host keeps a copy of the device's tables and sends only the differences. If there are more
    than `max_num_rows`, because rows moved as a sequence came or went, all tables are copied.

    Host memory is not pinned, so a copy call returns only after it has read the source. The next
    step may overwrite the host arrays at once.
    """

    def __init__(self, block_tables: torch.Tensor) -> None:
        """Take over `block_tables`, zeros [max_num_rows, max_blocks] int32; only we write to it."""
        max_num_rows, max_blocks = block_tables.shape
        self._host_side = np.zeros((len(Rows._fields), max_num_rows), dtype=np.int64)
        self._on_host = _rows(self._host_side, np.int32)
        self._on_host.slot_mapping[:] = NOT_WRITTEN
        self._device_side = torch.tensor(self._host_side, device=block_tables.device)
        self.on_device = _rows(self._device_side, torch.int32)
        self._block_tables = block_tables
        self._sent_tables = np.zeros((max_num_rows, max_blocks), dtype=np.int64)

    def set(self, inputs: ModelInput) -> None:
        """Copy a step's inputs to the device: one row per token, then rows of padding."""
        num_rows, rows = len(inputs.token_ids), self._on_host
        rows.token_ids[:num_rows] = inputs.token_ids
        rows.positions[:num_rows] = inputs.positions
        rows.slot_mapping[:num_rows] = inputs.attention.slot_mapping
        rows.slot_mapping[num_rows:] = NOT_WRITTEN
        rows.seq_lens[:num_rows] = inputs.positions + 1
        rows.seq_lens[num_rows:] = 0
        block_tables = inputs.attention.block_tables
        if num_rows != len(block_tables):  # rows of one sequence have the same blocks
            lengths = np.diff(inputs.attention.query_start_loc)
            block_tables = block_tables.repeat(lengths, axis=0)
        sent = self._sent_tables[:num_rows, : block_tables.shape[1]]
        changes = np.flatnonzero(block_tables != sent)
        if len(changes) > len(self._sent_tables):
            new = torch.from_numpy(block_tables.astype(np.int32))
            self._block_tables[:num_rows, : block_tables.shape[1]].copy_(new, non_blocking=True)
            sent[:] = block_tables
            changes = changes[:0]
        row, column = np.divmod(changes, block_tables.shape[1])
        rows.changed_entries[: len(changes)] = row * self._sent_tables.shape[1] + column
        rows.changed_ids[: len(changes)] = block_tables[row, column]
        self._device_side.copy_(torch.from_numpy(self._host_side), non_blocking=True)
        if len(changes):
            entries, block_ids = self.on_device.changed_entries, self.on_device.changed_ids
            self._block_tables.view(-1).index_copy_(
                0, entries[: len(changes)], block_ids[: len(changes)]
            )
            # Only after the copy: if it fails, the next step sends the changes again.
            sent[row, column] = block_tables[row, column]


def _rows(side: Any, int32: Any) -> Rows:
    """Name the rows of `side`: [number of rows, max_num_rows] int64.

    An int32 row uses the first half of its bytes.
    """
    rows, length = Rows(*side), side.shape[1]
    return rows._replace(
        seq_lens=rows.seq_lens.view(int32)[:length],
        changed_ids=rows.changed_ids.view(int32)[:length],
    )


Forward = Callable[[torch.Tensor, torch.Tensor, Any], torch.Tensor]
"""token_ids, positions: [num_tokens], metadata -> hidden states: [num_tokens, hidden_size]"""


MAX_ROWS_WITH_DRAFTS = 256
"""Larger steps with drafts run eagerly. The more rows, the less a graph saves: on an H100, a step of
64 rows takes 15.2 ms without a graph and 4.8 with one, of 256 rows 15.9 and 13.3 ms.
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
        inputs: StaticInputs,
        metadata_of: Callable[[int], Any],
        forward: Forward,
        max_query_len: int,
        hidden_size: int,
        dtype: torch.dtype,
        device: torch.device,
    ) -> None:
        """metadata_of: number of rows -> what attention needs of a step over `inputs`"""
        self._inputs, self._forward, self._device = inputs, forward, device
        self._max_query_len = max_query_len
        num_rows = len(inputs.on_device.token_ids)
        self._hidden = torch.zeros(num_rows, hidden_size, dtype=dtype, device=device)
        self._sizes = padded_sizes(num_rows)
        self._metadata = {size: metadata_of(size) for size in self._sizes}
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
        """Record a graph for each size. Raises `ConfigError` if there is not enough memory left.

        Call it before the first batch: all rows are padding then, so the KV cache stays untouched.
        Only one graph runs at a time, so all share the memory of the largest, recorded first.
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
