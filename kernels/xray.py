"""`trace`: the blocks and slots that each program of a kernel reads, and its softmax per tile.

Interpreted kernels are Python, so a kernel can be traced without changing it. The trace records:

    start of a program    the kernel and its grid index
    load                  a key's block and slot, from its address and the cache's strides
    `softmax_update`      the running maximum and sum
    store                 which rows are real: a padding row is computed, but never stored

Values are read at the same slots as keys, so the trace does not record them.
"""

import math
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any
from unittest import mock

import torch

from minivllm.kernels.attention.online_softmax import softmax_update
from minivllm.kernels.mode import (
    INTERPRETED,
    InterpretedFunction,
    TritonModeError,
    interpreter_builder,
)


@dataclass(frozen=True, slots=True)
class BlockRead:
    """Neighbouring slots of one block that are read together."""

    block_id: int
    first_slot: int
    """Index within the block."""
    num_slots: int


@dataclass(frozen=True, slots=True)
class TileTrace:
    """One tile of keys that a program read."""

    reads: tuple[BlockRead, ...]
    """In the order of the positions in the sequence."""
    running_max: tuple[float, ...]
    """[rows]: each row's largest score up to this tile, scaled, base e."""
    running_sum: tuple[float, ...]
    """[rows]: the sum of exp(score - running_max) up to this tile."""


@dataclass(frozen=True, slots=True)
class ProgramTrace:
    """The trace of one program; a row is one query of one head."""

    kernel: str
    program: tuple[int, int, int]
    kv_head: int | None
    """None if the program read no key."""
    tiles: tuple[TileTrace, ...]


@dataclass(frozen=True, slots=True)
class KernelTrace:
    """The result of the traced call, and its programs in the order in which they ran."""

    result: Any
    programs: tuple[ProgramTrace, ...]


@dataclass(slots=True)
class _Program:
    kernel: str
    program: tuple[int, int, int]
    kv_head: int | None = None
    stored_rows: torch.Tensor | None = None
    """[num_rows] indices"""
    reads: list[tuple[BlockRead, ...]] = field(default_factory=list)
    softmax: list[tuple[torch.Tensor, torch.Tensor]] = field(default_factory=list)

    def finished(self) -> ProgramTrace:
        rows = slice(None) if self.stored_rows is None else self.stored_rows
        tiles = tuple(
            # Kernels use base 2, so a kernel's maximum is log2(e) times the maximum in base e.
            TileTrace(
                reads, tuple((maximum[rows] * math.log(2)).tolist()), tuple(total[rows].tolist())
            )
            for reads, (maximum, total) in zip(self.reads, self.softmax, strict=True)
        )
        return ProgramTrace(self.kernel, self.program, self.kv_head, tiles)


def trace(call: Callable[[], Any], key_cache: torch.Tensor) -> KernelTrace:
    """Run `call` and trace the programs of every attention kernel in it.

    key_cache: [num_blocks, block_size, num_kv_heads, head_size], the tensor (or view) from which
        the kernels read keys

    Raises `TritonModeError` if kernels are compiled in this process.
    """
    if not INTERPRETED:
        raise TritonModeError(
            "Only interpreted kernels can be traced: set TRITON_INTERPRET=1 before Python starts."
        )
    programs: list[_Program] = []
    with ExitStack() as taps:
        for tap in (
            _tap_programs(programs),
            _tap_memory(programs, key_cache),
            _tap_softmax(programs),
        ):
            taps.enter_context(tap)
        result = call()
    return KernelTrace(result, tuple(program.finished() for program in programs))


@contextmanager
def _tap_programs(programs: list[_Program]) -> Iterator[None]:
    kernels: list[str] = []
    launch, begin = InterpretedFunction.run, interpreter_builder.set_grid_idx

    def run(kernel: Any, *args: Any, **kwargs: Any) -> Any:
        kernels.append(kernel.__name__)
        return launch(kernel, *args, **kwargs)

    def set_grid_idx(x: int, y: int, z: int) -> None:
        programs.append(_Program(kernels[-1], (x, y, z)))
        begin(x, y, z)

    with (
        mock.patch.object(InterpretedFunction, "run", run),
        mock.patch.object(interpreter_builder, "set_grid_idx", set_grid_idx),
    ):
        yield


@contextmanager
def _tap_memory(programs: list[_Program], key_cache: torch.Tensor) -> Iterator[None]:
    load, store = interpreter_builder.create_masked_load, interpreter_builder.create_masked_store

    def create_masked_load(pointers: Any, mask: Any, *options: Any) -> Any:
        addresses = torch.from_numpy(pointers.data[mask.data].astype("int64"))
        keys = _key_indices(addresses, key_cache)  # [num_keys, 3]: block, slot, head
        if len(keys):
            programs[-1].kv_head = int(keys[0, 2])
            programs[-1].reads.append(_as_reads(keys[:, :2].tolist()))
        return load(pointers, mask, *options)

    def create_masked_store(pointers: Any, value: Any, mask: Any, *options: Any) -> Any:
        if mask.data.ndim == 2:  # rows and dimensions: the output
            programs[-1].stored_rows = torch.from_numpy(mask.data).any(dim=1).nonzero().flatten()
        return store(pointers, value, mask, *options)

    with (
        mock.patch.object(interpreter_builder, "create_masked_load", create_masked_load),
        mock.patch.object(interpreter_builder, "create_masked_store", create_masked_store),
    ):
        yield


@contextmanager
def _tap_softmax(programs: list[_Program]) -> Iterator[None]:
    original = softmax_update.rewrite()

    def update(scores: Any, running_max: Any, running_sum: Any) -> Any:
        weights, correction, new_max, new_sum = original(scores, running_max, running_sum)
        programs[-1].softmax.append(
            tuple(torch.from_numpy(x.handle.data).clone() for x in (new_max, new_sum))
        )
        return weights, correction, new_max, new_sum

    with mock.patch.dict(InterpretedFunction.rewritten_fn, {softmax_update.fn: update}):
        yield


def _key_indices(addresses: torch.Tensor, key_cache: torch.Tensor) -> torch.Tensor:
    """Return block, slot and head of the keys that start at these addresses: [num_keys, 3]."""
    rest = torch.div(addresses - key_cache.data_ptr(), key_cache.itemsize, rounding_mode="floor")
    is_inside = rest >= 0
    indices = torch.zeros(len(addresses), 4, dtype=torch.int64)
    # An offset is a sum of index * stride, so divide by the strides, largest first. A dimension of
    # size 1 has no stride of its own, and its index stays 0.
    for dimension in sorted(
        (d for d in range(4) if key_cache.shape[d] > 1), key=lambda d: -key_cache.stride(d)
    ):
        stride = key_cache.stride(dimension)
        indices[:, dimension] = torch.div(rest, stride, rounding_mode="floor")
        rest = rest - indices[:, dimension] * stride
        is_inside &= indices[:, dimension] < key_cache.shape[dimension]
    return indices[is_inside & (rest == 0) & (indices[:, 3] == 0), :3]


def _as_reads(slots: list[list[int]]) -> tuple[BlockRead, ...]:
    """Join neighbouring slots in a list of (block, slot) pairs."""
    reads: list[BlockRead] = []
    for block_id, slot in slots:
        last = reads[-1] if reads else None
        if (
            last is not None
            and last.block_id == block_id
            and last.first_slot + last.num_slots == slot
        ):
            reads[-1] = BlockRead(block_id, last.first_slot, last.num_slots + 1)
        else:
            reads.append(BlockRead(block_id, slot, 1))
    return tuple(reads)
