"""Products with stored weights have the bits of products with the same weights in float32."""

import pytest
import torch
from support.model.needs import cpu_ops
from support.model.paged_cases import assert_close
from support.model.random_weights import random_weight

from minivllm.runtime.model.linear_backend import CpuMatrix
from minivllm.runtime.quantization.formats import FORMATS
from minivllm.runtime.quantization.stored_weight import StoredWeight

NUMBERS_OF_ROWS = (0, *range(1, 18), 33, 300)
MIXED = {"q4_1": 50, "q6_k": 17, "float32": 16, "bfloat16": 9, "q8_0": 3, "int8": 65}
"""Formats of the parts of one matrix, and their rows."""


@pytest.fixture(autouse=True, scope="module")
def kernels_in_c() -> None:
    cpu_ops()


def assert_same_bits(parts: list[StoredWeight]) -> None:
    """Compare products and rows of the stored weights with those of their float32 values."""
    plain = torch.cat([part.dequantize() for part in parts])
    stored, in_float32 = CpuMatrix(parts, True), CpuMatrix(plain)
    for num_rows in NUMBERS_OF_ROWS:
        x = torch.randn(num_rows, plain.shape[1])
        torch.set_num_threads(1 + num_rows % 2)
        product = stored.multiply(x)
        assert torch.equal(product, in_float32.multiply(x)), f"{num_rows} rows"
        if num_rows:
            assert_close(product, x.double() @ plain.double().T, torch.float32)
    assert torch.equal(torch.cat([stored.multiply(row[None]) for row in x[:20]]), product[:20])
    ids = torch.tensor([len(plain) - 1, 0, 3, 3, *range(len(plain))])
    assert torch.equal(stored.rows(ids), plain[ids])


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("shape", [(120, 256), (7, 512)])
def test_stored_weights_give_the_bits_of_float32(name, shape):
    assert_same_bits([random_weight(name, *shape)])


@pytest.mark.parametrize("name", [name for name in FORMATS if FORMATS[name].block_size == 1])
def test_a_format_without_blocks_takes_any_number_of_inputs(name):
    for in_features in (1, 33):
        assert_same_bits([random_weight(name, 20, in_features)])


def test_the_parts_of_a_matrix_can_have_different_formats():
    assert_same_bits([random_weight(name, rows, 256) for name, rows in MIXED.items()])


@pytest.mark.parametrize("name", FORMATS)
def test_panels_are_as_large_as_the_checkpoint(name):
    weight = random_weight(name, 64, 512)
    (panels,) = CpuMatrix([weight]).packed.panels
    # q4_k's scales of six bits take a byte.
    assert panels.data.nbytes <= weight.num_bytes * (1.03 if name == "q4_k" else 1)
