"""Blocks at offsets in the cache that do not fit into 32 bits.

The cache has more than 2^31 numbers (4 GiB), but only a few pages are touched, so on a CPU it costs
address space and no memory.
"""

import pytest
import torch
from support.model import triton_kernels
from support.model.needs import INTERPRETED
from support.model.paged_cases import DEVICE, assert_close

from minivllm.kernels import reference, reference_ops

BLOCK_SIZE, HEAD_SIZE, LENGTH = 16, 64, 40
NUM_BLOCKS = 2**31 // (2 * BLOCK_SIZE * HEAD_SIZE) + 4
LAST_BLOCKS = [NUM_BLOCKS - 1, NUM_BLOCKS - 3, NUM_BLOCKS - 2]
SCALE = HEAD_SIZE**-0.5

pytestmark = [] if INTERPRETED else [pytest.mark.gpu]


@pytest.fixture(scope="module")
def cache() -> torch.Tensor:
    """[num_blocks, 2, block_size, 1, head_size]: keys and values side by side."""
    return torch.empty(NUM_BLOCKS, 2, BLOCK_SIZE, 1, HEAD_SIZE, dtype=torch.float16, device=DEVICE)


@pytest.fixture
def small(cache: torch.Tensor, seed: int) -> torch.Tensor:
    """Float64 copy of the cache's last three blocks: [3, 2, block_size, 1, head_size]."""
    numbers = torch.randn(3, *cache.shape[1:], generator=torch.Generator().manual_seed(seed)).half()
    for block, content in zip(LAST_BLOCKS, numbers, strict=True):
        cache[block] = content
    return numbers.double()


def on_device(*lists: list) -> list[torch.Tensor]:
    return [torch.tensor(numbers, dtype=torch.int32, device=DEVICE) for numbers in lists]


@pytest.mark.parametrize("version", ["naive", "grouped", "split", "mass"])
def test_decodes_read_blocks_beyond_32_bits(version, cache, small):
    query, own_table = torch.randn(1, 2, HEAD_SIZE).half(), torch.arange(3)[None]
    table, lengths = on_device([LAST_BLOCKS], [LENGTH])
    if version == "mass":
        arguments = (query.to(DEVICE), cache[:, 0], table, lengths, SCALE)
        actual = triton_kernels.attention_mass(*arguments)
        exact = (query.double(), small[:, 0], own_table, lengths, SCALE)
        expected = reference.attention_mass(*exact)
    else:
        arguments = (query.to(DEVICE), cache[:, 0], cache[:, 1], table, lengths, SCALE)
        actual = triton_kernels.DECODE[version](*arguments)
        exact = (query.double(), small[:, 0], small[:, 1], own_table, lengths, SCALE)
        expected = reference.decode_attention(*exact)
    assert_close(actual, expected, torch.float16)


@pytest.mark.parametrize("kernel", triton_kernels.CHUNKS)
def test_chunks_read_blocks_beyond_32_bits(kernel, cache, small):
    query = torch.randn(9, 2, HEAD_SIZE).half()
    table, starts, lengths = on_device([LAST_BLOCKS], [0, 9], [LENGTH])
    actual = triton_kernels.CHUNKS[kernel](
        query.to(DEVICE), cache[:, 0], cache[:, 1], table, starts, lengths, SCALE
    )
    exact = (query.double(), small[:, 0], small[:, 1], torch.arange(3)[None])
    expected = reference.paged_attention(*exact, [0, 9], [LENGTH], SCALE)
    assert_close(actual, expected, torch.float16)


def test_writes_and_copies_reach_blocks_beyond_32_bits(cache, small):
    key, value = torch.randn(2, 2, 1, HEAD_SIZE).half()
    pair, caches = (key.to(DEVICE), value.to(DEVICE)), (cache[:, 0], cache[:, 1])
    slots = torch.tensor([LAST_BLOCKS[0] * BLOCK_SIZE + 5, LAST_BLOCKS[1] * BLOCK_SIZE + 7])
    triton_kernels.reshape_and_cache(*pair, *caches, slots.to(DEVICE))
    assert torch.equal(cache[LAST_BLOCKS[0], :, 5].cpu(), torch.stack((key[0], value[0])))
    assert torch.equal(cache[LAST_BLOCKS[1], :, 7].cpu(), torch.stack((key[1], value[1])))

    source, target = (torch.tensor([block], device=DEVICE) for block in LAST_BLOCKS[:2])
    triton_kernels.copy_blocks(cache[None], source, target)
    assert torch.equal(cache[LAST_BLOCKS[1]], cache[LAST_BLOCKS[0]])

    cos_sin = torch.randn(2, 2, 1, HEAD_SIZE).half()
    expected = torch.zeros(2, 1, BLOCK_SIZE, 1, HEAD_SIZE).double()
    exact = (x.double() for x in (key, key, value, *cos_sin))
    reference_ops.rotary_and_cache(*exact, *expected, torch.tensor([-1, 3]))
    slots = torch.tensor([-1, LAST_BLOCKS[2] * BLOCK_SIZE + 3])
    triton_kernels.rotary_and_cache(pair[0], *pair, *cos_sin.to(DEVICE), *caches, slots.to(DEVICE))
    assert_close(cache[LAST_BLOCKS[2], :, 3], expected[:, 0, 3], torch.float16)
