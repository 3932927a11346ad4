"""The CPU's products: the same bits in every batch, whatever the other rows hold."""

import pytest
import torch
from support.model.needs import cpu_ops

from minivllm.kernels.cpu.ops import CpuOps
from minivllm.kernels.cpu.packed_matrix import PackedMatrix
from minivllm.runtime.model.linear_backend import CpuMatrix


@pytest.fixture(scope="module")
def ops() -> CpuOps:
    return cpu_ops()


def packed(weight: torch.Tensor) -> PackedMatrix:
    return CpuMatrix(weight).packed


@pytest.mark.parametrize("rounds", [False, True])
@pytest.mark.parametrize("shape", [(144, 65), (7, 33), (112, 1), (16, 32)])
def test_a_product_is_bitwise_the_same_in_every_batch(ops, rounds, shape):
    torch.manual_seed(0)
    weight, x = torch.randn(shape), torch.randn(300, shape[1])
    matrix = packed(weight.bfloat16() if rounds else weight)
    alone = torch.cat([ops.linear(row[None], matrix, rounds) for row in x])
    for num_rows in (*range(2, 34), 300):
        torch.set_num_threads(1 + num_rows % 2)
        together = ops.linear(x[:num_rows].clone(), matrix, rounds)
        assert torch.equal(together, alone[:num_rows]), f"{num_rows} rows"


@pytest.mark.parametrize("name", ["rms_norm", "linear", "linear in bfloat16"])
def test_a_nan_row_spoils_no_other(name, ops):
    x, weight = torch.randn(20, 32), torch.randn(40, 32)
    second = {
        "rms_norm": (torch.ones(32), 1e-5),
        "linear": (packed(weight),),
        "linear in bfloat16": (packed(weight.bfloat16()), True),
    }[name]
    kernel = getattr(ops, name.split()[0])
    clean = kernel(x, *second)
    x[7, 3] = float("nan")
    spoiled = kernel(x, *second)
    others = [row for row in range(20) if row != 7]
    assert spoiled[7].isnan().all() and torch.equal(spoiled[others], clean[others])


def test_inputs_round_to_bfloat16_as_in_torch(ops):
    inf, nan, tie = float("inf"), float("nan"), 1 + 2.0**-8
    numbers = [0.1, -3.14159, tie, tie + 2.0**-7, -tie, 3.39e38, -3.4e38, inf, -inf, nan, 2.0**-126]
    x = torch.tensor(numbers)[:, None]
    product = ops.linear(x, packed(torch.ones(16, 1, dtype=torch.bfloat16)), rounds=True)
    expected = x.bfloat16().float().expand(-1, 16)
    torch.testing.assert_close(product, expected, rtol=0, atol=0, equal_nan=True)
