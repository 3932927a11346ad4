"""The CPU's norms, SiLU and products against their references, and the build of the library."""

import shlex
import subprocess
import sys

import pytest
import torch
from support.model.stored_weights import float_panels
from support.patience import SOON

from minivllm.kernels import reference_ops
from minivllm.kernels.cpu import library
from minivllm.kernels.cpu.library import CpuKernelsError, load_cpu_library
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.kernels.cpu.packed_matrix import LANES
from minivllm.runtime.cpu.load import load_cpu_ops


@pytest.fixture(scope="module")
def ops() -> CpuOps:
    return load_cpu_ops()


@pytest.mark.parametrize("size", [16, 576, 20])
@pytest.mark.parametrize("num_rows", [1, 16, 200])
def test_norms_match_their_references_for_any_shape(ops, num_rows, size):
    torch.manual_seed(0)
    x, residual, weight = (
        torch.randn(num_rows, size),
        torch.randn(num_rows, size),
        torch.randn(size),
    )
    torch.testing.assert_close(
        ops.rms_norm(x, weight, 1e-5), reference_ops.rms_norm(x, weight, 1e-5), rtol=2e-6, atol=2e-6
    )
    ours, theirs = residual.clone(), residual.clone()
    normed = ops.add_rms_norm(x, ours, weight, 1e-5)
    torch.testing.assert_close(
        normed, reference_ops.add_rms_norm(x, theirs, weight, 1e-5), rtol=2e-6, atol=2e-6
    )
    assert torch.equal(ours, theirs)


def test_silu_matches_its_reference_over_its_whole_range(ops):
    x = torch.linspace(-120.0, 120.0, 2 * 24 * 3).view(3, 48)
    torch.testing.assert_close(
        ops.silu_and_mul(x), reference_ops.silu_and_mul(x), rtol=2e-6, atol=1e-30
    )
    assert ops.silu_and_mul(torch.full((1, 32), float("nan"))).isnan().all()


@pytest.mark.parametrize("num_threads", [1, 2])
def test_a_product_is_bitwise_the_same_in_every_batch(ops, num_threads):
    torch.manual_seed(0)
    x, panels = torch.randn(300, 65), torch.randn(9, 65, LANES)
    matrix = float_panels(panels)
    alone = torch.cat([ops.linear(row[None], matrix) for row in x])
    before = torch.get_num_threads()
    torch.set_num_threads(num_threads)
    try:
        for num_rows in (*range(2, 34), 300):
            assert torch.equal(ops.linear(x[:num_rows].clone(), matrix), alone[:num_rows]), (
                f"{num_rows} rows"
            )
    finally:
        torch.set_num_threads(before)
    torch.testing.assert_close(
        alone, x @ panels.transpose(1, 2).reshape(-1, 65).T, rtol=1e-4, atol=1e-4
    )


@pytest.mark.slow  # builds the kernels once more
def test_results_are_bitwise_the_same_when_the_compiler_avoids_fused_operations(
    ops, tmp_path, monkeypatch
):
    # By default gcc 13 does this for Sapphire Rapids and Zen 4: a multiplication and an addition
    # where a loop has one sum.
    compiler = [*library._compiler(), "--param=avoid-fma-max-bits=512"]
    monkeypatch.setenv("CC", shlex.join(compiler))
    unfused = CpuOps(load_cpu_library(tmp_path))
    torch.manual_seed(0)
    x, panels, weight = torch.randn(16, 64), torch.randn(9, 64, LANES), torch.randn(64)
    matrix = float_panels(panels)
    expected = ops.linear(x, matrix)
    for num_rows in range(1, 17):
        assert torch.equal(unfused.linear(x[:num_rows].clone(), matrix), expected[:num_rows]), (
            f"{num_rows} rows"
        )
    assert torch.equal(unfused.rms_norm(x, weight, 1e-5), ops.rms_norm(x, weight, 1e-5))
    assert torch.equal(unfused.silu_and_mul(x), ops.silu_and_mul(x))


@pytest.mark.parametrize("name", ["rms_norm", "linear"])
def test_a_nan_row_spoils_no_other(name, ops):
    x, panels, weight = torch.randn(20, 32), torch.randn(2, 32, LANES), torch.ones(32)
    compute = {
        "rms_norm": lambda: ops.rms_norm(x, weight, 1e-5),
        "linear": lambda: ops.linear(x, float_panels(panels)),
    }[name]
    clean = compute()
    x[7, 3] = float("nan")
    spoiled = compute()
    others = [row for row in range(20) if row != 7]
    assert spoiled[7].isnan().all() and torch.equal(spoiled[others], clean[others])


@pytest.mark.slow  # builds the kernels once more
def test_the_library_is_built_once_and_then_loaded(tmp_path, monkeypatch):
    load_cpu_library.cache_clear()
    load_cpu_library(tmp_path)
    (built,) = tmp_path.iterdir()
    made_at = built.stat().st_mtime_ns
    load_cpu_library.cache_clear()
    monkeypatch.setattr(library, "_build", lambda *_: pytest.fail("it is there already"))
    load_cpu_library(tmp_path)
    assert built.stat().st_mtime_ns == made_at
    load_cpu_library.cache_clear()


@pytest.mark.slow  # builds the kernels twice
def test_processes_can_build_at_the_same_time(tmp_path):
    code = (
        "import sys, pathlib; from minivllm.kernels.cpu.library import *;"
        " load_cpu_library(pathlib.Path(sys.argv[1]))"
    )
    builders = [
        subprocess.Popen([sys.executable, "-c", f"import torch; {code}", str(tmp_path)])
        for _ in range(2)
    ]
    assert [builder.wait(timeout=SOON) for builder in builders] == [0, 0]
    assert [file.suffix for file in tmp_path.iterdir()] == [".so"]


@pytest.mark.parametrize(
    ("compiler", "why"),
    [
        ("'cc", "CC is not a valid command"),
        ("/no/such/compiler", "there is no C compiler"),
        ("{folder}/broken", "cannot be run"),
        # clang's OpenMP threads are not torch's.
        ("{folder}/clang", "is clang, .* set CC to a gcc"),
    ],
)
def test_a_bad_compiler_or_clang_gives_one_sentence(compiler, why, tmp_path, monkeypatch):
    programs = {
        "broken": "\x7fELF and nothing more",
        "clang": "#!/bin/sh\necho 'Debian clang version 19.1.7'\n",
    }
    for name, text in programs.items():
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("CC", compiler.format(folder=tmp_path))
    load_cpu_library.cache_clear()
    with pytest.raises(CpuKernelsError, match=why):
        load_cpu_library(tmp_path / "kernels")


def test_a_file_in_place_of_the_folder_gives_one_sentence(tmp_path):
    load_cpu_library.cache_clear()
    (tmp_path / "kernels").write_text("")
    with pytest.raises(CpuKernelsError, match="cannot be stored in"):
        load_cpu_library(tmp_path / "kernels")
