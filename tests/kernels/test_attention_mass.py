"""Attention mass per block: the kernel against the reference, and the reference against plain
softmax.
"""

import pytest
import torch
from support.model.paged_cases import PAIRWISE_SHAPES, PagedCase, Shape, assert_close, edge_lengths

from minivllm.kernels import reference
from minivllm.kernels.attention.attention_mass import attention_mass


@pytest.mark.parametrize("shape", PAIRWISE_SHAPES, ids=str)
def test_the_mass_of_every_block_equals_the_reference(shape: Shape, seed: int) -> None:
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


def test_the_reference_sums_softmax_weights_by_block(seed: int) -> None:
    case = PagedCase(Shape(group=3, block_size=8), [21], seed)
    query = case.decode_query()
    keys = case.exact_caches[0].flatten(0, 1)[case.slots(0)]  # [21, 2, 64]
    weights = torch.softmax(
        torch.einsum("hd,thd->ht", query[0], keys.repeat_interleave(3, 1)) / 8, dim=1
    )
    by_block = torch.stack([part.sum(1) for part in weights.split(8, 1)], dim=1)
    mass = reference.attention_mass(
        query, case.exact_caches[0], case.block_tables, case.seq_lens, 1 / 8
    )
    torch.testing.assert_close(mass[0, :, :3].double(), by_block, rtol=1e-5, atol=1e-7)
    assert mass[0, :, 3:].abs().max() == 0.0
