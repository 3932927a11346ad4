"""The prefill kernel against the reference: ragged chunks with and without context, mixed with
decodes.
"""

import pytest
import torch
from support.model.paged_cases import DEVICE, PAIRWISE_SHAPES, PagedCase, Shape, assert_close

from minivllm.kernels.attention.prefill import list_query_tiles, prefill_attention
from minivllm.kernels.launch_table import prefill_launch
from minivllm.kernels.reference import paged_attention


def run(
    case: PagedCase, query_lens: list[int], sequences: list[int]
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
    actual = prefill_attention(
        device_query,
        *case.caches(),
        case.block_tables.to(DEVICE),
        torch.tensor(starts, dtype=torch.int32, device=DEVICE),
        case.seq_lens.to(DEVICE),
        shape.scale,
        list_query_tiles(query_lens, sequences, shape.group, shape.head_size, shape.dtype).to(
            DEVICE
        ),
        torch.full_like(device_query, float("nan")),
    )
    return actual, expected


@pytest.mark.parametrize("shape", PAIRWISE_SHAPES, ids=str)
def test_prefill_attention_equals_the_reference(shape: Shape, seed: int) -> None:
    size = shape.block_size
    # Whole prompts, chunks with context before them, and a context that ends within a block.
    case = PagedCase(shape, [1, size - 1, size + 1, 41], seed)
    actual, expected = run(case, query_lens=[1, size - 1, 2, 19], sequences=[0, 1, 2, 3])
    assert_close(actual, expected, shape.dtype)


@pytest.mark.parametrize("group", [1, 7])
def test_a_chunk_of_many_query_tiles_is_causal_throughout(group: int, seed: int) -> None:
    case = PagedCase(Shape(group=group, num_kv_heads=1), [150], seed)
    actual, expected = run(case, query_lens=[120], sequences=[0])
    assert_close(actual, expected, torch.float32)


def test_sequences_that_are_not_listed_are_left_alone(seed: int) -> None:
    case = PagedCase(Shape(group=3), [9, 20, 4], seed)
    actual, expected = run(case, query_lens=[1, 7, 4], sequences=[1])
    assert actual[0].isnan().all()
    assert actual[8:].isnan().all()
    assert_close(actual[1:8], expected[1:8], torch.float32)


def test_every_token_is_in_one_query_tile() -> None:
    for group in (1, 3, 8):
        tokens = prefill_launch(64, torch.bfloat16).rows_of(group) // group
        tiles = list_query_tiles([5, 3 * tokens, 2 * tokens + 1], [0, 2], group, 64, torch.bfloat16)
        assert sorted(map(tuple, tiles.tolist())) == [(0, 0), (2, 0), (2, tokens), (2, 2 * tokens)]
    assert list_query_tiles([1, 1], [], 1, 64, torch.float32).shape == (0, 2)
