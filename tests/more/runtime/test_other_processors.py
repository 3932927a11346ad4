"""The kernels in C, built for processors without this one's instructions: each takes a build."""

import platform
from pathlib import Path

import pytest
import torch
from runtime.quantization.test_panels import MIXED, assert_same_bits
from support.model.attention_cases import random_case
from support.model.backend_cases import CpuCase
from support.model.needs import cpu_ops
from support.model.random_weights import random_weight

from minivllm.kernels.cpu import library
from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.runtime.model import linear_backend
from minivllm.runtime.quantization.formats import FORMATS

pytestmark = pytest.mark.slow


def build_with(flags: tuple[str, ...], folder: Path) -> CpuOps:
    cpu_ops()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(library, "FLAGS", (*flags, "-Wno-psabi"))
        return CpuOps(load_cpu_library(folder))


@pytest.mark.parametrize("processor", ["haswell", "x86-64"])  # AVX2, and plain C
def test_stored_weights_give_the_bits_of_float32_on_older_processors(
    processor, tmp_path, monkeypatch
):
    if platform.machine() != "x86_64":
        pytest.skip("needs an x86-64 processor")
    flags = [flag for flag in library.FLAGS if not flag.startswith("-march")]
    ops = build_with((*flags, f"-march={processor}"), tmp_path)
    assert ops.instructions == ("AVX2" if processor == "haswell" else "")
    monkeypatch.setattr(linear_backend, "load_cpu_ops", lambda: ops)
    for name in FORMATS:
        for shape in ((120, 256), (17, 768), (7, 512)):
            assert_same_bits([random_weight(name, *shape)])
    for name in (name for name, format_ in FORMATS.items() if format_.block_size == 1):
        assert_same_bits([random_weight(name, 20, 63)])
    assert_same_bits([random_weight(name, rows, 256) for name, rows in MIXED.items()])


def test_attention_with_smaller_registers_gives_the_same_result(tmp_path):
    ops = build_with((*library.FLAGS, "-mno-avx512f"), tmp_path)
    for seed in range(8):
        seqs, options = random_case(seed)
        case = CpuCase(seqs, **options)
        backend = case.backend()
        backend._ops = ops
        torch.testing.assert_close(
            case.run(backend).double(), case.reference(), rtol=1e-6, atol=1e-6
        )
