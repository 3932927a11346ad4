"""The kernels for chunks, `prefill` and `unified`, against the reference on ragged batches."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from support.model.paged_cases import DEVICE, PAIRWISE_SHAPES, PagedCase, Shape, assert_close

from minivllm.kernels.attention.decode_split import SplitWorkspace
from minivllm.kernels.attention.prefill import list_query_tiles, prefill_attention
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.launch_table import prefill_launch
from minivllm.kernels.reference import paged_attention


def prefill(
    case: PagedCase, query_lens: list[int], *arguments: object, listed: list[int] | None = None
) -> torch.Tensor:
    shape = case.shape
    listed = list(range(len(query_lens))) if listed is None else listed
    tiles = list_query_tiles(query_lens, listed, shape.group, shape.head_size, shape.dtype)
    return prefill_attention(*arguments[:-1], tiles.to(DEVICE), arguments[-1])


def unified(
    case: PagedCase, query_lens: list[int], *arguments: object, num_splits: int = 1
) -> torch.Tensor:
    query, *_, out = arguments
    workspace = SplitWorkspace.empty(query, num_splits)
    for part in (workspace.out, workspace.lse):
        part.fill_(float("nan"))  # old content must not be read
    options = {"has_chunks": True, "num_splits": num_splits, "workspace": workspace, "out": out}
    return unified_attention(*arguments[:-1], **options)


def run(
    kernel: Callable[..., torch.Tensor], case: PagedCase, query_lens: list[int]
) -> tuple[torch.Tensor, torch.Tensor]:
    """Output of the kernel (NaN where unwritten) and the reference: [tokens, heads, head_size]."""
    shape = case.shape
    starts = [0, *torch.tensor(query_lens).cumsum(0).tolist()]
    query = case.random(starts[-1], shape.num_heads, shape.head_size)
    expected = paged_attention(
        query, *case.exact_caches, case.block_tables, starts, case.lengths, shape.scale
    )
    device_query = query.to(shape.dtype).to(DEVICE)
    actual = kernel(
        case,
        query_lens,
        device_query,
        *case.caches(),
        case.block_tables.to(DEVICE),
        torch.tensor(starts, dtype=torch.int32, device=DEVICE),
        case.seq_lens.to(DEVICE),
        shape.scale,
        torch.full_like(device_query, float("nan")),
    )
    return actual, expected


both_kernels = pytest.mark.parametrize("kernel", [prefill, unified])


@both_kernels
@pytest.mark.parametrize("shape", PAIRWISE_SHAPES, ids=str)
def test_chunks_and_decodes_in_one_launch_equal_the_reference(kernel, shape, seed):
    size = shape.block_size
    # Whole prompts, chunks with context, decodes between them, and a context that ends within a
    # block.
    case = PagedCase(shape, [1, size - 1, 75, size + 1, 41, 30], seed)
    actual, expected = run(kernel, case, [1, size - 1, 1, 2, 19, 1])
    assert_close(actual, expected, shape.dtype)


@pytest.mark.parametrize(
    "kernel",
    [prefill, unified, partial(unified, num_splits=2)],
    ids=["prefill", "unified", "split"],
)
@pytest.mark.parametrize("group", [1, 7])
def test_a_chunk_of_many_query_tiles_is_causal_throughout(kernel, group, seed):
    """With splits, some rows see nothing of some of them."""
    case = PagedCase(Shape(group=group, num_kv_heads=1), [150, 40, 7], seed)
    actual, expected = run(kernel, case, [120, 1, 7])
    assert_close(actual, expected, torch.float32)


@both_kernels
def test_a_program_finds_its_sequence_for_every_mix_of_lengths(kernel, seed):
    """Each token is written to its place, for 40 short sequences of random lengths."""
    generator = torch.Generator().manual_seed(seed)
    query_lens = (torch.randint(0, 6, (40,), generator=generator) ** 2 + 1).tolist()
    contexts = [n + int(torch.randint(0, 9, (1,), generator=generator)) for n in query_lens]
    case = PagedCase(Shape(head_size=16, num_kv_heads=1, block_size=8), contexts, seed)
    actual, expected = run(kernel, case, query_lens)
    assert_close(actual, expected, torch.float32)


def test_prefill_skips_sequences_that_are_not_listed(seed):
    case = PagedCase(Shape(group=3), [9, 20, 4], seed)
    actual, expected = run(partial(prefill, listed=[1]), case, [1, 7, 4])
    assert actual[0].isnan().all()
    assert actual[8:].isnan().all()
    assert_close(actual[1:8], expected[1:8], torch.float32)


def test_every_token_is_in_one_query_tile_of_prefill():
    for group in (1, 3, 8):
        tokens = prefill_launch(64, torch.bfloat16).rows_of(group) // group
        tiles = list_query_tiles([5, 3 * tokens, 2 * tokens + 1], [0, 2], group, 64, torch.bfloat16)
        assert sorted(map(tuple, tiles.tolist())) == [(0, 0), (2, 0), (2, tokens), (2, 2 * tokens)]
    assert list_query_tiles([1, 1], [], 1, 64, torch.float32).shape == (0, 2)
