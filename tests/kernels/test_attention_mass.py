"""Attention mass per block: the kernel against its reference, and that against plain softmax."""

import pytest
import torch
from support.model.paged_cases import PAIRWISE_SHAPES, PagedCase, assert_close, edge_lengths

from minivllm.kernels import reference
from minivllm.kernels.attention.attention_mass import attention_mass


@pytest.mark.parametrize("shape", PAIRWISE_SHAPES, ids=str)
def test_the_mass_of_every_block_equals_the_reference(shape, seed):
    case = PagedCase(shape, [*edge_lengths(shape.block_size, long=70), 0], seed)
    exact_query = case.decode_query()
    expected = reference.attention_mass(
        exact_query, case.exact_caches[0], case.block_tables, case.seq_lens, shape.scale
    )
    query, key_cache, _, *others = case.decode_arguments(exact_query)
    mass = attention_mass(query, key_cache, *others)
    assert_close(mass, expected, shape.dtype)
    assert_close(
        mass.sum(-1),
        (case.seq_lens > 0).double()[:, None].expand(-1, shape.num_heads),
        torch.float32,
    )
