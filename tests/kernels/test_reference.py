"""The reference itself, against PyTorch's dense attention on hand-made contexts."""

import pytest
import torch
from torch.nn import functional

from minivllm.kernels.reference import copy_blocks, paged_attention, reshape_and_cache

BLOCK_SIZE = 4
NUM_BLOCKS = 12


def nan_caches(num_kv_heads: int, head_size: int) -> torch.Tensor:
    return torch.full((2, NUM_BLOCKS, BLOCK_SIZE, num_kv_heads, head_size), float("nan")).double()


@pytest.mark.parametrize("group", [1, 3, 4])
@pytest.mark.parametrize("seq_len", [1, BLOCK_SIZE, BLOCK_SIZE + 1, 4 * BLOCK_SIZE + 2])
def test_a_paged_context_gives_what_dense_attention_gives(group, seq_len):
    torch.manual_seed(seq_len)
    num_kv_heads, head_size = 2, 8
    query = torch.randn(seq_len, num_kv_heads * group, head_size).double()
    key, value = torch.randn(2, seq_len, num_kv_heads, head_size).double()
    block_table = torch.randperm(NUM_BLOCKS)[:5]
    positions = torch.arange(seq_len)
    slots = block_table[positions // BLOCK_SIZE] * BLOCK_SIZE + positions % BLOCK_SIZE
    key_cache, value_cache = nan_caches(num_kv_heads, head_size)
    reshape_and_cache(key, value, key_cache, value_cache, slots)

    dense = functional.scaled_dot_product_attention(
        query.transpose(0, 1), key.repeat_interleave(group, dim=1).transpose(0, 1),
        value.repeat_interleave(group, dim=1).transpose(0, 1), is_causal=True,
    ).transpose(0, 1)  # fmt: skip
    whole = paged_attention(
        query, key_cache, value_cache, block_table[None], [0, seq_len], [seq_len], head_size**-0.5
    )
    torch.testing.assert_close(whole, dense)
    last = paged_attention(
        query[-1:], key_cache, value_cache, block_table[None], [0, 1], [seq_len], head_size**-0.5
    )
    torch.testing.assert_close(last, dense[-1:])


def test_a_token_with_slot_minus_one_is_written_nowhere():
    key_cache, value_cache = nan_caches(1, 2)
    key = torch.arange(6).view(3, 1, 2).double()
    reshape_and_cache(key, -key, key_cache, value_cache, torch.tensor([5, -1, 0]))
    assert (~key_cache.isnan()).nonzero()[:, :2].unique(dim=0).tolist() == [[0, 0], [1, 1]]
    assert key_cache[1, 1].tolist() == key[0].tolist()
    assert value_cache[0, 0].tolist() == (-key[2]).tolist()


def test_copying_blocks_reads_all_sources_before_it_writes():
    caches = torch.arange(4.0).view(1, 4, 1)
    copy_blocks(caches, torch.tensor([0, 1]), torch.tensor([1, 2]))
    assert caches.flatten().tolist() == [0.0, 0.0, 1.0, 3.0]
