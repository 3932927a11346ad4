"""Blocks at offsets in the cache that do not fit into 32 bits.

The cache has more than 2^31 numbers (4 GiB), but only a few pages are touched, so on a CPU it costs
address space and no memory.
"""

import pytest
import torch
from support.model.paged_cases import DEVICE, assert_close

from minivllm.kernels import kv_write, reference, reference_ops
from minivllm.kernels.attention.attention_mass import attention_mass
from minivllm.kernels.attention.decode_grouped import decode_grouped
from minivllm.kernels.attention.decode_naive import decode_naive
from minivllm.kernels.attention.decode_split import decode_split
from minivllm.kernels.attention.prefill import list_query_tiles, prefill_attention
from minivllm.kernels.attention.unified import unified_attention
from minivllm.kernels.rotary import rotary_and_cache

BLOCK_SIZE, HEAD_SIZE, LENGTH = 16, 64, 40
NUM_BLOCKS = 2**31 // (2 * BLOCK_SIZE * HEAD_SIZE) + 4
LAST_BLOCKS = [NUM_BLOCKS - 1, NUM_BLOCKS - 3, NUM_BLOCKS - 2]
SCALE = HEAD_SIZE**-0.5


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


@pytest.mark.parametrize(
    "decode",
    [decode_naive, decode_grouped, lambda *arguments: decode_split(*arguments, num_splits=2)],
    ids=["naive", "grouped", "split"],
)
def test_decodes_read_blocks_beyond_32_bits(decode, cache, small):
    query = torch.randn(1, 2, HEAD_SIZE).half()
    lengths = torch.tensor([LENGTH], dtype=torch.int32, device=DEVICE)
    table = torch.tensor([LAST_BLOCKS], dtype=torch.int32, device=DEVICE)
    actual = decode(query.to(DEVICE), cache[:, 0], cache[:, 1], table, lengths, SCALE)
    own_table = torch.arange(3)[None]
    expected = reference.decode_attention(
        query.double(), small[:, 0], small[:, 1], own_table, lengths, SCALE
    )
    assert_close(actual, expected, torch.float16)
    mass = attention_mass(query.to(DEVICE), cache[:, 0], table, lengths, SCALE)
    expected = reference.attention_mass(query.double(), small[:, 0], own_table, lengths, SCALE)
    assert_close(mass, expected, torch.float16)


@pytest.mark.parametrize("num_splits", [None, 1, 2], ids=["prefill", "unified", "unified, split"])
def test_chunks_read_blocks_beyond_32_bits(num_splits, cache, small):
    query = torch.randn(9, 2, HEAD_SIZE).half()
    table, starts, lengths = (
        torch.tensor(numbers, dtype=torch.int32, device=DEVICE)
        for numbers in ([LAST_BLOCKS], [0, 9], [LENGTH])
    )
    arguments = (query.to(DEVICE), cache[:, 0], cache[:, 1], table, starts, lengths, SCALE)
    if num_splits is None:
        tiles = list_query_tiles([9], [0], 2, HEAD_SIZE, torch.float16).to(DEVICE)
        actual = prefill_attention(*arguments, tiles)
    else:
        actual = unified_attention(*arguments, has_chunks=True, num_splits=num_splits)
    tables = torch.arange(3)[None]
    expected = reference.paged_attention(
        query.double(), small[:, 0], small[:, 1], tables, [0, 9], [LENGTH], SCALE
    )
    assert_close(actual, expected, torch.float16)


def test_writes_and_copies_reach_blocks_beyond_32_bits(cache, small):
    key, value = torch.randn(2, 2, 1, HEAD_SIZE).half()
    slots = torch.tensor([LAST_BLOCKS[0] * BLOCK_SIZE + 5, LAST_BLOCKS[1] * BLOCK_SIZE + 7])
    device_pair = key.to(DEVICE), value.to(DEVICE)
    kv_write.reshape_and_cache(*device_pair, cache[:, 0], cache[:, 1], slots.to(DEVICE))
    assert torch.equal(cache[LAST_BLOCKS[0], :, 5].cpu(), torch.stack((key[0], value[0])))
    assert torch.equal(cache[LAST_BLOCKS[1], :, 7].cpu(), torch.stack((key[1], value[1])))

    source, target = (torch.tensor([block], device=DEVICE) for block in LAST_BLOCKS[:2])
    kv_write.copy_blocks(cache[None], source, target)
    assert torch.equal(cache[LAST_BLOCKS[1]], cache[LAST_BLOCKS[0]])

    cos, sin = torch.randn(2, 2, HEAD_SIZE).half()
    expected = torch.zeros(2, 1, BLOCK_SIZE, 1, HEAD_SIZE).double()
    wanted = (x.double() for x in (key, key, value, cos, sin))
    reference_ops.rotary_and_cache(*wanted, *expected, torch.tensor([-1, 3]))
    slots = torch.tensor([-1, LAST_BLOCKS[2] * BLOCK_SIZE + 3])
    rotary_and_cache(
        device_pair[0],
        *device_pair,
        cos.to(DEVICE),
        sin.to(DEVICE),
        cache[:, 0],
        cache[:, 1],
        slots.to(DEVICE),
    )
    assert_close(cache[LAST_BLOCKS[2], :, 3], expected[:, 0, 3], torch.float16)
