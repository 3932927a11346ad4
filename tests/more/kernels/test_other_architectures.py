"""The kernels in C on other processors and with other compilers: the same bits everywhere.

`tests/support/kernels_driver.c` runs each kernel on fixed numbers and prints a hash of each result.
"""

import platform
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from support.model.needs import cpu_ops

from minivllm.kernels.cpu import library

pytestmark = pytest.mark.slow
SUPPORT = Path(__file__).parents[2] / "support"
ZIG = [sys.executable, "-m", "ziglang", "cc"]


def printed(compiler: list[str], folder: Path, *flags: str, run_by: tuple[str, ...] = ()) -> str:
    """Build the driver and the kernels with these flags, run it, and return its output."""
    kernels, driver = Path(library.__file__).parent, folder / "driver"
    common = [flag for flag in library.FLAGS if not flag.startswith(("-m", "-shared"))]
    sources = [SUPPORT / "kernels_driver.c", *sorted(kernels.glob("*.c"))]
    subprocess.run(
        [*compiler, *common, *flags, "-I", kernels, *sources, "-o", driver, "-lm"], check=True
    )
    done = subprocess.run([*run_by, driver], capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, f"a product has other bits than a plain loop:\n{done.stdout}"
    return done.stdout


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> str:
    cpu_ops()
    return printed(library._compiler(), tmp_path_factory.mktemp("here"), "-march=native")


@pytest.mark.parametrize("processor", ["haswell", "native"])  # AVX2, and this one
@pytest.mark.parametrize("name", ["gcc", "clang", "zig"])
def test_every_compiler_gives_the_same_bits(name, processor, expected, tmp_path):
    if name == "zig":
        pytest.importorskip("ziglang", reason="no Zig: pip install 'minivllm[compiler]'")
    elif shutil.which(name) is None:
        pytest.skip(f"no {name}")
    elif processor == "haswell" and platform.machine() != "x86_64":
        pytest.skip("needs an x86-64 processor")
    compiler = ZIG if name == "zig" else [name]
    assert printed(compiler, tmp_path, f"-march={processor}") == expected


def test_the_kernels_for_arm_give_the_same_bits_in_an_emulator(expected, tmp_path):
    """Arm's registers have four lanes."""
    emulator = shutil.which("qemu-aarch64") or shutil.which("qemu-aarch64-static")
    if emulator is None or find_spec("ziglang") is None:
        pytest.skip("needs Debian's qemu-user, and pip install 'minivllm[compiler]'")
    target = ("-target", "aarch64-linux-musl", "-static")
    assert printed(ZIG, tmp_path, *target, run_by=(emulator,)) == expected
