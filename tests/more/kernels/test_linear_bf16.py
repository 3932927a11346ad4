"""Products in bfloat16 with AMX, emulated in C, and as the compiler translates it."""

import shlex
import subprocess
from pathlib import Path

import pytest
import torch
from support.model.needs import cpu_ops

from minivllm.kernels.cpu import library
from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.runtime.model.linear_backend import CpuMatrix

EMULATED_AMX = Path(__file__).parents[2] / "support" / "emulated_amx.h"


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(144, 576), (7, 33), (112, 1), (50, 80), (16, 32)])
def test_amx_multiplies_rounded_inputs_alike_in_every_batch(shape, tmp_path_factory, monkeypatch):
    cpu_ops()
    command = [*library._compiler(), "-include", str(EMULATED_AMX)]
    monkeypatch.setenv("CC", shlex.join(command))
    ops = CpuOps(load_cpu_library(tmp_path_factory.getbasetemp() / "amx"))
    assert ops.bf16_way == "AMX"
    weight, x = torch.randn(shape).bfloat16(), torch.randn(300, shape[1])
    matrix = CpuMatrix(weight).packed
    alone = torch.cat([ops.linear(row[None], matrix, rounds=True) for row in x])
    expected = x.bfloat16().double() @ weight.double().T
    # Products are exact; a sum of n numbers is off by at most n roundings of the largest sum.
    sums = x.bfloat16().double().abs() @ weight.double().abs().T
    assert ((alone - expected).abs() <= shape[1] * 2.0**-24 * sums).all()
    for num_rows in (*range(2, 18), 31, 33, 300):
        together = ops.linear(x[:num_rows].clone(), matrix, rounds=True)
        assert torch.equal(together, alone[:num_rows]), f"{num_rows} rows"


def test_the_compiler_accepts_the_real_instructions_of_amx(tmp_path):
    cpu_ops()
    folder = Path(library.__file__).parent
    flags = [flag for flag in library.FLAGS if flag != "-shared"]
    command = [*library._compiler(), *flags, "-mamx-tile", "-mamx-bf16", "-mavx512f", "-S"]
    source, assembly = folder / "linear_bf16.c", tmp_path / "linear_bf16.s"
    done = subprocess.run([*command, source, "-o", assembly], capture_output=True, text=True)
    if "unrecognized command-line option" in done.stderr:
        pytest.skip("this compiler is older than AMX, or not for x86")
    assert done.returncode == 0, done.stderr
    assert "tdpbf16ps" in assembly.read_text()
