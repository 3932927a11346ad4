"""The plain Python of lesson 13, against ggml's bytes and the engine's own tensors."""

import gguf
import numpy as np
import pytest
import torch

from minivllm.kernels.reference_ops import dequantize_heads, quantize_heads
from minivllm.lessons.shown.quantize import (
    Int8Cache,
    dequantize_block,
    pack_block,
    quantize_block,
    quantize_head,
    unpack_block,
)
from minivllm.runtime.quantization.formats import FORMATS


@pytest.fixture
def numbers() -> torch.Tensor:
    return torch.randn(64, 32, generator=torch.Generator().manual_seed(0))


def test_a_packed_block_has_the_bytes_of_ggml_and_the_weights_of_the_engine(numbers):
    packed = [pack_block(quantize_block(row)) for row in numbers.tolist()]
    theirs = gguf.quants.quantize(numbers.numpy(), gguf.GGMLQuantizationType.Q4_1)
    assert packed == [row.tobytes() for row in theirs]
    read = np.array([dequantize_block(unpack_block(data)) for data in packed], np.float32)
    assert np.array_equal(read, FORMATS["q4_1"].dequantize(torch.from_numpy(theirs)).numpy())


def test_a_head_of_the_int8_cache_has_the_numbers_of_the_engine(numbers):
    numbers[3] = 0.0
    theirs, scales = quantize_heads(numbers)
    own = [quantize_head(row) for row in numbers.tolist()]
    assert [head.numbers for head in own] == theirs.tolist()
    assert [head.scale for head in own] == pytest.approx(scales.tolist())
    cache = Int8Cache(num_slots=2, num_heads=64)
    cache.write(1, numbers.tolist())
    assert np.allclose(cache.read(1), dequantize_heads(theirs, scales))
