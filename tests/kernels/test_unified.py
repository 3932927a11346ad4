"""The unified kernel against the reference: decodes, chunks and both in one launch, with and
without splits.
"""

import pytest
import torch
from support.model.paged_cases import DEVICE, PAIRWISE_SHAPES, PagedCase, Shape, assert_close

from minivllm.kernels.attention.decode_split import SplitWorkspace
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.reference import paged_attention


def run(
    case: PagedCase, query_lens: list[int], num_splits: int = 1
) -> tuple[torch.Tensor, torch.Tensor]:
    """The kernel's output, NaN where it wrote nothing, and the reference's: [num_tokens, num_heads,
    head_size]
    """
    shape = case.shape
    starts = [0, *torch.tensor(query_lens).cumsum(0).tolist()]
    query = case.random(starts[-1], shape.num_heads, shape.head_size)
    expected = paged_attention(
        query, *case.exact_caches, case.block_tables, starts, case.lengths, shape.scale
    )
    device_query = query.to(shape.dtype).to(DEVICE)
    workspace = SplitWorkspace.empty(device_query, num_splits)
    for part in (workspace.out, workspace.lse):
        part.fill_(float("nan"))  # whatever is left there must not be read
    actual = unified_attention(
        device_query,
        *case.caches(),
        case.block_tables.to(DEVICE),
        torch.tensor(starts, dtype=torch.int32, device=DEVICE),
        case.seq_lens.to(DEVICE),
        shape.scale,
        has_chunks=max(query_lens) > 1,
        num_splits=num_splits,
        workspace=workspace,
        out=torch.full_like(device_query, float("nan")),
    )
    return actual, expected


@pytest.mark.parametrize("shape", PAIRWISE_SHAPES, ids=str)
def test_chunks_and_decodes_in_one_launch_equal_the_reference(shape: Shape, seed: int) -> None:
    size = shape.block_size
    # Whole prompts, chunks with context before them, decodes between them, a context that ends
    # within a block.
    case = PagedCase(shape, [1, size - 1, 75, size + 1, 41, 30], seed)
    actual, expected = run(case, query_lens=[1, size - 1, 1, 2, 19, 1])
    assert_close(actual, expected, shape.dtype)


@pytest.mark.parametrize(("group", "num_splits"), [(1, 2), (3, 8), (8, 1)])
def test_a_batch_of_decodes_alone_equals_the_reference(
    group: int, num_splits: int, seed: int
) -> None:
    case = PagedCase(Shape(group=group), [1, 15, 16, 17, 75, 300], seed)
    actual, expected = run(case, query_lens=[1] * 6, num_splits=num_splits)
    assert_close(actual, expected, torch.float32)


@pytest.mark.parametrize("num_splits", [2])
def test_chunks_whose_rows_see_nothing_of_some_splits_equal_the_reference(
    num_splits: int, seed: int
) -> None:
    case = PagedCase(Shape(group=3), [150, 40, 7], seed)
    actual, expected = run(case, query_lens=[120, 1, 7], num_splits=num_splits)
    assert_close(actual, expected, torch.float32)


@pytest.mark.parametrize("group", [1, 7])
def test_a_chunk_of_many_query_tiles_is_causal_throughout(group: int, seed: int) -> None:
    case = PagedCase(Shape(group=group, num_kv_heads=1), [150], seed)
    actual, expected = run(case, query_lens=[120])
    assert_close(actual, expected, torch.float32)


@pytest.mark.parametrize("num_splits", [1, 4])
def test_a_row_of_length_zero_is_not_read_and_gives_zeros(num_splits: int, seed: int) -> None:
    case = PagedCase(Shape(), [0, 5, 0], seed)
    query = case.decode_query()
    dense, *arguments = case.decode_arguments(query)
    keys, values, tables, lengths, scale = arguments
    starts = torch.arange(4, dtype=torch.int32, device=DEVICE)
    actual = unified_attention(
        dense, keys, values, tables, starts, lengths, scale, has_chunks=False, num_splits=num_splits
    )
    assert_close(actual, case.decode_expected(query), torch.float32)
    assert actual[0].abs().max() == 0.0


def test_a_program_finds_its_sequence_for_every_mix_of_lengths(seed: int) -> None:
    """Each token is written exactly where it belongs, whatever the lengths are: 40 short sequences
    of random lengths.
    """
    generator = torch.Generator().manual_seed(seed)
    query_lens = (torch.randint(0, 6, (40,), generator=generator) ** 2 + 1).tolist()
    contexts = [n + int(torch.randint(0, 9, (1,), generator=generator)) for n in query_lens]
    case = PagedCase(Shape(head_size=16, num_kv_heads=1, block_size=8), contexts, seed)
    actual, expected = run(case, query_lens)
    assert_close(actual, expected, torch.float32)
