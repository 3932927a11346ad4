"""The README's examples as tests, for `pytest visible_test.py`."""

import torch
from decode_naive import decode_naive

from minivllm.kernels.reference import decode_attention


def agrees(seq_lens, num_heads, num_kv_heads, tables):
    """Whether the kernel agrees with the reference, over a cache of 10 blocks of 4 tokens."""
    torch.manual_seed(0)
    query = torch.randn(len(seq_lens), num_heads, 16)
    key_cache, value_cache = torch.randn(2, 10, 4, num_kv_heads, 16)
    args = (query, key_cache, value_cache, torch.tensor(tables), torch.tensor(seq_lens), 0.25)
    return torch.allclose(decode_naive(*args), decode_attention(*args), atol=1e-4)


def test_one_tile():
    assert agrees([7], 1, 1, [[7, 2]])


def test_two_tiles():
    assert agrees([20], 1, 1, [[7, 2, 0, 5, 9]])


def test_query_heads_share_key_heads():
    assert agrees([7, 3], 4, 2, [[7, 2], [3, 0]])


def test_a_padded_row_is_zeros():
    out = decode_naive(
        torch.full((1, 1, 16), torch.nan),
        *torch.randn(2, 10, 4, 1, 16),
        torch.tensor([[99]]),
        torch.tensor([0]),
        0.25,
    )
    assert not out.any()
