"""The formats' references against the `gguf` package, bit for bit, and what is refused."""

import numpy as np
import pytest
import torch
from gguf import quants
from gguf.constants import GGML_QUANT_SIZES, GGMLQuantizationType
from support.model.random_weights import SCALES_AT, random_weight

from minivllm.errors import ModelIntegrityError, UnsupportedModelError
from minivllm.runtime.quantization.formats import FORMATS
from minivllm.runtime.quantization.stored_weight import StoredWeight, join_rows

QUANTIZED = ("q8_0", "q4_0", "q4_1", "q4_k", "q6_k")


@pytest.mark.parametrize("name", QUANTIZED)
def test_any_bytes_become_the_numbers_of_the_gguf_package(name):
    kind = GGMLQuantizationType[name.upper()]
    format_ = FORMATS[name]
    assert (format_.block_size, format_.block_bytes) == GGML_QUANT_SIZES[kind]
    data = torch.randint(0, 256, (33, format_.bytes_per_row(512)), dtype=torch.uint8)
    with np.errstate(all="ignore"):  # some scales are NaN
        theirs = torch.from_numpy(quants.dequantize(data.numpy(), kind).copy())
    ours = format_.split(data).dequantize()
    assert torch.equal(ours.isnan(), theirs.isnan()) and not ours.isnan().all()
    assert torch.equal(ours.nan_to_num().view(torch.int32), theirs.nan_to_num().view(torch.int32))


def test_int8_keeps_each_row_within_half_a_step_and_zeros_exactly():
    original = torch.randn(20, 50) * torch.logspace(-6, 6, 20).unsqueeze(1)
    original[3] = 0
    stored = StoredWeight.quantize_int8([original], original.shape)
    steps = original.abs().amax(dim=1, keepdim=True) / 127
    assert ((stored.dequantize() - original).abs() <= steps * 0.5001).all()
    assert stored.num_bytes == 20 * (50 + 4)


def test_rows_can_be_reordered_and_joined_without_touching_a_block():
    weight, other = random_weight("q4_1", 20, 64), random_weight("q8_0", 3, 64)
    order = torch.randperm(20)
    assert torch.equal(weight.rows(order).dequantize(), weight.dequantize()[order])
    joined = join_rows([weight.rows(slice(0, 7)), weight.rows(slice(7, None)), other, weight])
    assert [part.format.name for part in joined] == ["q4_1", "q8_0", "q4_1"]
    assert torch.equal(joined[0].data, weight.data)


@pytest.mark.parametrize("name", QUANTIZED)
def test_a_scale_that_is_not_a_number_is_reported_as_damage(name):
    weight, (_, last) = random_weight(name, 5, 512), SCALES_AT[name]
    weight.data.view(5, -1, weight.format.block_bytes)[3, 1, last - 2 : last] = 0xFF
    with pytest.raises(ModelIntegrityError, match=f"{name} has a scale that is not a finite"):
        weight.dequantize()


def test_rows_that_are_not_whole_blocks_are_refused():
    with pytest.raises(UnsupportedModelError, match="48 inputs cannot be stored as q4_0"):
        StoredWeight(FORMATS["q4_0"], torch.zeros(2, 27, dtype=torch.uint8), 48)
