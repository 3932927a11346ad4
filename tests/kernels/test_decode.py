"""What is special to the decode kernels; that they are right: test_kernels_are_the_reference.py."""

import pytest
import torch
from support.model.paged_cases import DEVICE, PagedCase, Shape, assert_close
from support.model.triton_kernels import DECODE

from minivllm.kernels.attention.decode_split import choose_num_splits, decode_split
from minivllm.kernels.launch_table import MAX_SPLITS, decode_launch


@pytest.mark.parametrize(("num_splits", "num_tiles"), [(1, 3), (2, 5), (8, 5)])
def test_the_number_of_splits_changes_nothing_but_rounding(num_splits, num_tiles, seed):
    shape = Shape(group=3, num_kv_heads=1)
    case = PagedCase(shape, [num_tiles * decode_launch(64, torch.float32).tile - 1, 3], seed)
    query = case.decode_query()
    actual = decode_split(*case.decode_arguments(query), num_splits=num_splits)
    assert_close(actual, case.decode_expected(query), torch.float32)


def test_large_scores_do_not_overflow_the_softmax(seed):
    """Scores in the thousands: exp() of them is infinite, and float32 holds them to 1e-4."""
    case = PagedCase(Shape(group=3), [20], seed)
    query = case.decode_query() * 1000
    expected = case.decode_expected(query)
    for version in DECODE.values():
        assert_close(version(*case.decode_arguments(query)), expected, torch.float32, 1e-3)


def test_more_sequences_and_shorter_contexts_get_fewer_splits():
    assert choose_num_splits(1, 8, 100_000, num_processors=132) == 64
    assert choose_num_splits(16, 8, 100_000, num_processors=132) == 4
    assert choose_num_splits(256, 8, 100_000, num_processors=132) == 1
    assert choose_num_splits(1, 8, 1_000, num_processors=132) == 8
    assert choose_num_splits(1, 8, 10, num_processors=132) == 1
    assert choose_num_splits(1, 1, 10**6, num_processors=132) == MAX_SPLITS


def test_queries_keys_and_values_may_be_slices_of_wider_tensors(seed: int) -> None:
    """The caller chooses the layout: here [num_blocks, num_kv_heads, 2, block_size, head_size]."""
    case = PagedCase(Shape(group=4), [9, 18], seed)
    query = case.decode_query()
    dense, keys, values, *arguments = case.decode_arguments(query)
    wide = torch.full((2, 12, 64), float("nan"), device=DEVICE)
    wide[:, 1:9] = dense
    cache = torch.stack((keys, values), dim=2).permute(0, 3, 2, 1, 4).contiguous()
    pair = [cache[:, :, i].transpose(1, 2) for i in range(2)]
    expected = case.decode_expected(query)
    for version in ("naive", "grouped", "split"):
        assert_close(DECODE[version](wide[:, 1:9], *pair, *arguments), expected, torch.float32)
