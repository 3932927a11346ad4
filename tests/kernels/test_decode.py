"""Every version of the decode kernel against the reference, on the same problems."""

from collections.abc import Callable
from functools import partial

import pytest
import torch
from support.model.paged_cases import (
    DEVICE,
    NO_BLOCK,
    PAIRWISE_SHAPES,
    PagedCase,
    Shape,
    assert_close,
    edge_lengths,
)

from minivllm.kernels.attention.decode_grouped import decode_grouped
from minivllm.kernels.attention.decode_naive import decode_naive
from minivllm.kernels.attention.decode_split import SplitWorkspace, choose_num_splits, decode_split
from minivllm.kernels.attention.decode_static import StaticDecode
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.launch_table import MAX_SPLITS, decode_launch


def split_in_4(query: torch.Tensor, *arguments: object) -> torch.Tensor:
    """The split version with a workspace full of NaN, which must not reach the result."""
    workspace = SplitWorkspace.empty(query, 4)
    workspace.out.fill_(float("nan"))
    workspace.lse.fill_(float("nan"))
    return decode_split(query, *arguments, num_splits=4, workspace=workspace)


def static(
    query: torch.Tensor,
    key_cache: torch.Tensor,
    value_cache: torch.Tensor,
    block_tables: torch.Tensor,
    seq_lens: torch.Tensor,
    scale: float,
) -> torch.Tensor:
    """The static version with two extra rows, whose queries and block tables are junk."""
    num_seqs, num_heads, _ = query.shape
    decode = StaticDecode(num_seqs + 2, 2048, key_cache, num_heads, scale, num_processors=16)
    decode.block_tables.fill_(NO_BLOCK)
    decode.seq_lens.fill_(10**6)
    decode.set_batch(block_tables, seq_lens)
    padded = torch.cat((query, torch.full_like(query[:2], float("nan"))))
    out = decode(padded, key_cache, value_cache)
    assert torch.equal(out[num_seqs:], torch.zeros_like(out[num_seqs:]))
    return out[:num_seqs]


def unified(query: torch.Tensor, *arguments: object, num_splits: int = 1) -> torch.Tensor:
    """The unified kernel on a batch of decodes only."""
    keys, values, tables, lengths, scale = arguments
    starts = torch.arange(len(query) + 1, dtype=torch.int32, device=DEVICE)
    options = {"has_chunks": False, "num_splits": num_splits}
    return unified_attention(query, keys, values, tables, starts, lengths, scale, **options)


VERSIONS: dict[str, Callable[..., torch.Tensor]] = {
    "naive": decode_naive,
    "grouped": decode_grouped,
    "split": split_in_4,
    "static": static,
    "unified": unified,
    "unified, split": partial(unified, num_splits=4),
}


@pytest.mark.parametrize("shape", PAIRWISE_SHAPES, ids=str)
def test_every_version_of_decode_attention_equals_the_reference(shape, seed):
    # A row of length zero is not read and gives zeros.
    case = PagedCase(shape, [*edge_lengths(shape.block_size), 0], seed)
    query = case.decode_query()
    expected = case.decode_expected(query)
    for version in VERSIONS.values():
        actual = version(*case.decode_arguments(query))
        assert_close(actual, expected, shape.dtype)
        assert actual[-1].abs().max() == 0.0


@pytest.mark.parametrize("num_splits", [1, 2, 8, 16])
@pytest.mark.parametrize("num_tiles", [1, 7, 9])
def test_the_number_of_splits_changes_nothing_but_rounding(num_splits, num_tiles, seed):
    shape = Shape(group=3, num_kv_heads=1)
    case = PagedCase(shape, [num_tiles * decode_launch(64, torch.float32).tile - 1, 3], seed)
    query = case.decode_query()
    actual = decode_split(*case.decode_arguments(query), num_splits=num_splits)
    assert_close(actual, case.decode_expected(query), torch.float32)


def test_large_scores_do_not_overflow_the_softmax(seed):
    case = PagedCase(Shape(group=3), [50], seed)
    query = (
        case.decode_query() * 1000
    )  # scores in the thousands: exp() of them is infinite, and float32 holds them to 1e-4
    for version in VERSIONS.values():
        assert_close(
            version(*case.decode_arguments(query)), case.decode_expected(query), torch.float32, 1e-3
        )


def test_more_sequences_and_shorter_contexts_get_fewer_splits():
    assert choose_num_splits(1, 8, 100_000, num_processors=132) == 64
    assert choose_num_splits(16, 8, 100_000, num_processors=132) == 4
    assert choose_num_splits(256, 8, 100_000, num_processors=132) == 1
    assert choose_num_splits(1, 8, 1_000, num_processors=132) == 8
    assert choose_num_splits(1, 8, 10, num_processors=132) == 1
    assert choose_num_splits(1, 1, 10**6, num_processors=132) == MAX_SPLITS


def test_queries_keys_and_values_may_be_slices_of_wider_tensors(seed: int) -> None:
    """The caller chooses the layout: here [num_blocks, num_kv_heads, 2, block_size, head_size]."""
    case = PagedCase(Shape(group=4), [20, 33], seed)
    query = case.decode_query()
    dense, keys, values, *arguments = case.decode_arguments(query)
    wide = torch.full((2, 12, 64), float("nan"), device=DEVICE)
    wide[:, 1:9] = dense
    cache = torch.stack((keys, values), dim=2).permute(0, 3, 2, 1, 4).contiguous()
    pair = [cache[:, :, i].transpose(1, 2) for i in range(2)]
    for kernel in (decode_naive, decode_grouped, split_in_4):
        actual = kernel(wide[:, 1:9], *pair, *arguments)
        assert_close(actual, case.decode_expected(query), torch.float32)
