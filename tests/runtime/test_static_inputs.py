"""Static inputs hold the last step on the device, with as few copies as possible."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from minivllm.runtime.cuda_graphs import StaticInputs
from minivllm.runtime.input_batch import CommonAttentionMetadata, ModelInput

MAX_NUM_ROWS, MAX_BLOCKS, BLOCK_SIZE = 6, 10, 4


class Operations(TorchDispatchMode):
    """Records the names of torch's operations."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(func.name().removeprefix("aten::"))
        return func(*args, **(kwargs or {}))

    @property
    def copies(self) -> list[str]:
        return [name for name in self.names if "copy" in name]


def inputs_of(tables: list[list[int]], lengths: list[int]) -> ModelInput:
    """A decode step: sequence i has `lengths[i]` tokens, in the blocks `tables[i]`."""
    positions, rows = np.array(lengths, dtype=np.int64) - 1, np.arange(len(tables))
    block_tables = np.zeros((len(tables), max(map(len, tables))), dtype=np.int64)
    for row, table in zip(block_tables, tables, strict=True):
        row[: len(table)] = table
    blocks = block_tables[rows, positions // BLOCK_SIZE]
    slots = blocks * BLOCK_SIZE + positions % BLOCK_SIZE
    starts = np.arange(len(tables) + 1)
    common = CommonAttentionMetadata(starts, positions, block_tables, slots, None)
    return ModelInput(positions + 100, positions, rows, common)


@pytest.fixture
def static() -> StaticInputs:
    return StaticInputs(torch.zeros(MAX_NUM_ROWS, MAX_BLOCKS, dtype=torch.int32))


@pytest.mark.parametrize("seed", range(2))
def test_after_any_steps_the_device_holds_the_inputs_of_the_last(seed, static):
    """Sequences grow, end, begin and change places."""
    rng = np.random.default_rng(seed)
    sequences: list[tuple[list[int], int]] = []
    for _ in range(40):
        sequences = [(table, n + 1) for table, n in sequences if n < 36 and rng.random() < 0.95]
        while (len(sequences) < MAX_NUM_ROWS and rng.random() < 0.5) or not sequences:
            sequences.append(([], int(rng.integers(1, 30))))
        if rng.random() < 0.2:
            rng.shuffle(sequences)
        for table, length in sequences:
            table += rng.integers(1, 1000, size=-(-length // BLOCK_SIZE) - len(table)).tolist()
        lengths = [length for _, length in sequences]
        inputs = inputs_of([table for table, _ in sequences], lengths)
        static.set(inputs)
        count, rest = len(sequences), MAX_NUM_ROWS - len(sequences)
        assert static.on_device.token_ids[:count].tolist() == inputs.token_ids.tolist()
        assert static.on_device.positions[:count].tolist() == inputs.positions.tolist()
        slots = inputs.attention.slot_mapping.tolist()
        assert static.on_device.slot_mapping.tolist() == slots + [-1] * rest
        assert static.on_device.seq_lens.tolist() == lengths + [0] * rest
        for row, (table, _) in zip(static._block_tables, sequences, strict=False):
            assert row[: len(table)].tolist() == table


def test_a_decode_step_takes_one_copy_and_one_more_operation_if_a_sequence_got_a_block(static):
    tables = [[3, 4], [5], [6]]
    static.set(inputs_of(tables, [7, 2, 3]))
    with Operations() as same:
        static.set(inputs_of(tables, [8, 3, 4]))
    assert same.copies == ["copy_"]
    with Operations() as grown:
        static.set(inputs_of([[3, 4, 7], [5], [6, 8]], [9, 4, 5]))
    assert grown.copies == ["copy_", "index_copy_"]
