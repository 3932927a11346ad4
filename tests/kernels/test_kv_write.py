"""Writing to the cache and copying blocks, bit for bit against the reference."""

import pytest
import torch
from support.model.paged_cases import DEVICE, PAIRWISE_SHAPES

from minivllm.kernels import kv_write, reference


@pytest.mark.parametrize("shape", PAIRWISE_SHAPES, ids=str)
def test_keys_and_values_go_to_their_slots_and_nowhere_else(shape, seed):
    generator = torch.Generator().manual_seed(seed)
    num_blocks, num_tokens = 6, 11
    qkv = torch.randn(num_tokens, 3 * shape.num_kv_heads, shape.head_size, generator=generator).to(
        shape.dtype
    )
    # slices, as in the decoder
    key, value = qkv[:, : shape.num_kv_heads], qkv[:, 2 * shape.num_kv_heads :]
    slots = torch.randperm(num_blocks * shape.block_size, generator=generator)[:num_tokens]
    slots[[2, 10]] = -1
    cache_shape = (2, num_blocks, shape.block_size, shape.num_kv_heads, shape.head_size)
    expected = torch.full(cache_shape, 7.0, dtype=shape.dtype)
    actual = expected.clone().to(DEVICE)
    reference.reshape_and_cache(key, value, *expected, slots)
    kv_write.reshape_and_cache(
        *qkv.to(DEVICE).split(shape.num_kv_heads, 1)[::2], *actual, slots.to(DEVICE)
    )
    assert torch.equal(actual.cpu(), expected)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_blocks_are_copied_in_every_layer_by_one_launch(dtype, seed):
    generator = torch.Generator().manual_seed(seed)
    # a block is longer than a chunk
    expected = torch.randn(6, 9, 16, 3, 96, generator=generator).to(dtype)
    actual = expected.clone().to(DEVICE)
    src, dst = torch.tensor([3, 3, 8]), torch.tensor([0, 5, 7])
    reference.copy_blocks(expected, src, dst)
    kv_write.copy_blocks(actual, src.to(DEVICE), dst.to(DEVICE))
    assert torch.equal(actual.cpu(), expected)


def test_the_reference_copy_reads_all_sources_first():
    caches = torch.arange(4.0).view(1, 4, 1)
    reference.copy_blocks(caches, torch.tensor([0, 1]), torch.tensor([1, 2]))
    assert caches.flatten().tolist() == [0.0, 0.0, 1.0, 3.0]
