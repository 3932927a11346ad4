"""The decoder's fused operations against their torch references, in the sizes of real models."""

import pytest
import torch
from support.model.paged_cases import DEVICE, PAIRWISE_SHAPES, TOLERANCE, assert_close

from minivllm.kernels import norm_act, reference_ops, rotary

DTYPES = list(TOLERANCE)
JUNK = float("nan")


def random(seed: int, *shape: int) -> torch.Tensor:
    """Numbers that every dtype can hold, in float64."""
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)).bfloat16().double()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [64, 576, 896])
def test_rms_norm_equals_the_reference(size, dtype, seed):
    x, weight = random(seed, 5, size), random(seed + 1, size)
    # rows of a wider tensor
    wide = torch.cat((x, torch.full_like(x, JUNK)), dim=1).to(dtype).to(DEVICE)
    actual = norm_act.rms_norm(wide[:, :size], weight.to(dtype).to(DEVICE), 1e-5)
    assert_close(actual, reference_ops.rms_norm(x, weight, 1e-5), dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_the_residual_sum_is_written_and_normed(dtype, seed):
    x, residual, weight = random(seed, 5, 576), random(seed + 1, 5, 576), random(seed + 2, 576)
    device_residual = residual.to(dtype).to(DEVICE)
    actual = norm_act.add_rms_norm(
        x.to(dtype).to(DEVICE), device_residual, weight.to(dtype).to(DEVICE), 1e-6
    )
    assert_close(actual, reference_ops.add_rms_norm(x, residual, weight, 1e-6), dtype)
    assert_close(device_residual, residual, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("size", [80, 1536])
def test_silu_and_multiply_equals_the_reference(size, dtype, seed):
    gate_up = random(seed, 3, 2 * size) * 4
    actual = norm_act.silu_and_mul(gate_up.to(dtype).to(DEVICE))
    assert_close(actual, reference_ops.silu_and_mul(gate_up), dtype)


@pytest.mark.parametrize("shape", PAIRWISE_SHAPES, ids=str)
def test_rotated_keys_go_to_their_slots_and_rotated_queries_come_back(shape, seed):
    num_tokens, num_blocks, kv_heads = 6, 3, shape.num_kv_heads
    qkv = random(seed, num_tokens, shape.num_heads + 2 * kv_heads, shape.head_size)
    split = [shape.num_heads, kv_heads, kv_heads]
    angles = random(seed + 1, num_tokens, shape.head_size // 2)
    # Angles in the dtype under test, so that only the rotation can differ.
    cos, sin = angles.cos().bfloat16().double(), angles.sin().bfloat16().double()
    cos, sin = torch.cat((cos, cos), dim=1), torch.cat((-sin, sin), dim=1)
    slots = torch.randperm(
        num_blocks * shape.block_size, generator=torch.Generator().manual_seed(seed)
    )[:num_tokens]
    slots[3] = -1
    expected_caches = torch.full(
        (2, num_blocks, shape.block_size, kv_heads, shape.head_size), 0.5
    ).double()
    caches = expected_caches.to(shape.dtype).to(DEVICE)
    expected = reference_ops.rotary_and_cache(
        *qkv.split(split, 1), cos, sin, *expected_caches, slots
    )
    actual = rotary.rotary_and_cache(
        *qkv.to(shape.dtype).to(DEVICE).split(split, 1),
        cos.to(shape.dtype).to(DEVICE),
        sin.to(shape.dtype).to(DEVICE),
        *caches,
        slots.to(DEVICE),
    )
    assert_close(actual, expected, shape.dtype)
    assert_close(caches, expected_caches, shape.dtype)
