"""Products in bfloat16: each way against its plain reference, and the same bits in every batch."""

import shlex
import subprocess
from pathlib import Path

import pytest
import torch

from minivllm.kernels.cpu import library
from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.kernels.cpu.packed_matrix import PackedMatrix
from minivllm.runtime.cpu.large_pages import LargePages
from minivllm.runtime.cpu.load import load_cpu_ops
from minivllm.runtime.quantization.panels import pack
from minivllm.runtime.quantization.stored_weight import StoredWeight

EMULATED_AMX = Path(__file__).parents[1] / "support" / "emulated_amx.h"


FLAGS = {"AMX": ["-include", str(EMULATED_AMX)], "float32": ["-mno-avx512bf16", "-mno-amx-bf16"]}


def build_for(way: str, folder: Path) -> CpuOps:
    """Build the kernels once more, for one way of `CpuOps.bf16_way`."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("CC", shlex.join([*library._compiler(), *FLAGS[way]]))
        ops = CpuOps(load_cpu_library(folder))
    assert ops.bf16_way == way
    return ops


@pytest.fixture(scope="module", params=["own", pytest.param("AMX", marks=pytest.mark.slow)])
def ops(request, tmp_path_factory) -> CpuOps:
    """This machine's way, and AMX's with its instructions in C."""
    if request.param == "own":
        return load_cpu_ops()
    return build_for(request.param, tmp_path_factory.mktemp("kernels"))


def packed(weight: torch.Tensor) -> PackedMatrix:
    return PackedMatrix([pack(StoredWeight.of_tensor(weight), LargePages())], weight.shape[1])


@pytest.mark.parametrize("num_threads", [1, 2])
@pytest.mark.parametrize("shape", [(144, 576), (7, 33), (112, 1), (50, 80), (16, 32)])
def test_a_product_is_that_of_rounded_inputs_and_the_same_in_every_batch(ops, shape, num_threads):
    torch.manual_seed(0)
    weight, x = torch.randn(shape).bfloat16(), torch.randn(300, shape[1])
    matrix = packed(weight)
    alone = torch.cat([ops.linear_bf16(row[None], matrix) for row in x])
    expected = x.bfloat16().double() @ weight.double().T
    # Products are exact; a sum of n numbers is off by at most n roundings of the largest sum.
    sums = x.bfloat16().double().abs() @ weight.double().abs().T
    assert ((alone - expected).abs() <= shape[1] * 2.0**-24 * sums).all()
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        for num_rows in (*range(2, 18), 31, 33, 300):
            together = ops.linear_bf16(x[:num_rows].clone(), matrix)
            assert torch.equal(together, alone[:num_rows]), f"{num_rows} rows"
    finally:
        torch.set_num_threads(before)


def test_inputs_round_as_in_torch(ops):
    inf, nan, tie = float("inf"), float("nan"), 1 + 2.0**-8
    numbers = [0.1, -3.14159, tie, tie + 2.0**-7, -tie, 3.39e38, -3.4e38, inf, -inf, nan, 2.0**-126]
    x = torch.tensor(numbers)[:, None]
    product = ops.linear_bf16(x, packed(torch.ones(16, 1, dtype=torch.bfloat16)))
    torch.testing.assert_close(
        product, x.bfloat16().float().expand(-1, 16), rtol=0, atol=0, equal_nan=True
    )


def test_a_nan_row_spoils_no_other_in_bfloat16(ops):
    x, matrix = torch.randn(20, 40), packed(torch.randn(32, 40).bfloat16())
    clean = ops.linear_bf16(x, matrix)
    x[7, 3] = float("nan")
    spoiled = ops.linear_bf16(x, matrix)
    others = [row for row in range(20) if row != 7]
    assert spoiled[7].isnan().all() and torch.equal(spoiled[others], clean[others])


@pytest.mark.slow
def test_without_bf16_instructions_a_product_is_the_float32_kernels_over_rounded_inputs(tmp_path):
    ops = load_cpu_ops()
    if ops.bf16_way != "float32":
        ops = build_for("float32", tmp_path)
    x, matrix = torch.randn(40, 64), packed(torch.randn(48, 64).bfloat16())
    assert torch.equal(ops.linear_bf16(x, matrix), ops.linear(x.bfloat16().float(), matrix))


def test_the_compiler_accepts_the_real_instructions_of_amx(tmp_path):
    folder = Path(library.__file__).parent
    flags = [flag for flag in library.FLAGS if flag != "-shared"]
    command = [*library._compiler(), *flags, "-mamx-tile", "-mamx-bf16", "-mavx512f", "-S"]
    source, assembly = folder / "linear_bf16.c", tmp_path / "linear_bf16.s"
    done = subprocess.run([*command, source, "-o", assembly], capture_output=True, text=True)
    if "unrecognized command-line option" in done.stderr:
        pytest.skip("this compiler is older than AMX, or not for x86")
    assert done.returncode == 0, done.stderr
    assert "tdpbf16ps" in assembly.read_text()
