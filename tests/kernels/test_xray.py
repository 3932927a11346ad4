"""The kernel x-ray against a naive computation of what each program reads and computes."""

import pytest
import support.model.needs_triton  # noqa: F401
import torch
from support.model.needs import interpreted
from support.model.paged_cases import PagedCase, Shape

from minivllm.kernels.attention.decode_grouped import decode_grouped
from minivllm.kernels.attention.decode_split import decode_split
from minivllm.kernels.launch_table import decode_launch
from minivllm.kernels.xray import BlockRead, KernelTrace, ProgramTrace, TileTrace, trace

pytestmark = interpreted  # only interpreted kernels can be watched

SHAPE = Shape(head_size=64, group=3, block_size=16)


def naive_tiles(
    case: PagedCase, seq: int, rows: list[tuple[torch.Tensor, int]], kv_head: int, first: int,
    end: int, tile: int,
) -> tuple[TileTrace, ...]:  # fmt: skip
    """Tiles of a program for positions [first, end), for rows of (query, last visible position)."""
    size = case.shape.block_size
    slots = case.slots(seq).tolist()
    keys = case.exact_caches[0].flatten(0, 1)[:, kv_head]
    tiles = []
    for start in range(first, end, tile):
        reads: dict[int, list[int]] = {}
        for position in range(start, min(start + tile, end)):
            reads.setdefault(slots[position] // size, []).append(slots[position] % size)
        maxima, sums = [], []
        for query, last_visible in rows:
            seen = slots[first : min(start + tile, end, last_visible + 1)]
            scores = keys[seen] @ query * case.shape.scale
            maxima.append(scores.max().item())
            sums.append((scores - scores.max()).exp().sum().item())
        blocks = tuple(
            BlockRead(block, offsets[0], len(offsets)) for block, offsets in reads.items()
        )
        tiles.append(TileTrace(blocks, tuple(maxima), tuple(sums)))
    return tuple(tiles)


def assert_same(program: ProgramTrace, tiles: tuple[TileTrace, ...]) -> None:
    assert [tile.reads for tile in program.tiles] == [tile.reads for tile in tiles]
    for ours, naive in zip(program.tiles, tiles, strict=True):
        assert ours.running_max == pytest.approx(naive.running_max, rel=1e-4, abs=1e-5)
        assert ours.running_sum == pytest.approx(naive.running_sum, rel=1e-4)


def by_program(result: KernelTrace, kernel: str) -> dict[tuple[int, int, int], ProgramTrace]:
    return {program.program: program for program in result.programs if program.kernel == kernel}


def test_blocks_of_one_token_are_not_confused_with_heads(seed):
    case = PagedCase(Shape(head_size=16, group=1, block_size=1), [7], seed)
    query, key_cache, value_cache, *rest = case.decode_arguments(case.decode_query())
    # The engine's layout has heads before slots; with one slot both have the same stride.
    key_cache, value_cache = (
        c.transpose(1, 2).contiguous().transpose(1, 2) for c in (key_cache, value_cache)
    )
    result = trace(lambda: decode_grouped(query, key_cache, value_cache, *rest), key_cache)
    table = case.block_tables[0, :7].tolist()
    for (_, kv_head, _), program in by_program(result, "decode_grouped_kernel").items():
        assert program.kv_head == kv_head
        assert [read for tile in program.tiles for read in tile.reads] == [
            BlockRead(block, 0, 1) for block in table
        ]


def test_the_split_kernel_shows_which_split_read_which_part_and_which_were_idle(seed):
    case = PagedCase(SHAPE, [5, 140], seed)
    query = case.decode_query()
    arguments = case.decode_arguments(query)
    result = trace(lambda: decode_split(*arguments, num_splits=2), arguments[1])
    # 64: sequence 1 has three tiles, so two for the first split
    tile = decode_launch(64, torch.float32).tile
    for (seq, kv_head, split), program in by_program(result, "decode_split_kernel").items():
        length = case.lengths[seq]
        first, end = (
            ((0, min(2 * tile, length)), (2 * tile, length))[split]
            if length > tile
            else ((0, 5), (5, 5))[split]
        )
        rows = [(query[seq, kv_head * 3 + i], length - 1) for i in range(3)]
        assert_same(program, naive_tiles(case, seq, rows, kv_head, first, end, tile))
        assert (program.kv_head is None) == (first == end)
    assert all(
        program.tiles == () for program in by_program(result, "reduce_splits_kernel").values()
    )


def test_tracing_leaves_the_interpreter_as_it_was(seed):
    case = PagedCase(SHAPE, [20], seed)
    query = case.decode_query()
    arguments = case.decode_arguments(query)
    first = trace(lambda: decode_grouped(*arguments), arguments[1])
    untraced = decode_grouped(*arguments)
    with pytest.raises(ZeroDivisionError):
        trace(lambda: 1 / 0, arguments[1])
    again = trace(lambda: decode_grouped(*arguments), arguments[1])
    assert torch.equal(first.result, untraced)
    assert first.programs == again.programs
