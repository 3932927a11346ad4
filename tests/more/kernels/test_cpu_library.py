"""Building the kernels in C: once, by several processes, with other flags, or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.model.needs import cpu_ops
from support.patience import SOON

from minivllm.kernels.cpu import library
from minivllm.kernels.cpu.library import CpuKernelsError, load_cpu_library


@pytest.mark.slow  # builds the kernels twice
def test_processes_can_build_at_once_and_the_library_is_then_only_loaded(tmp_path, monkeypatch):
    cpu_ops()
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
    monkeypatch.setattr(library, "_build", lambda *_: pytest.fail("it is there already"))
    load_cpu_library.cache_clear()
    load_cpu_library(tmp_path)


def bad_compilers(folder: Path) -> dict[str, str]:
    """Commands for CC -> the reason that they give."""
    programs = {
        "broken": "\x7fELF and nothing more",
        "clang": "#!/bin/sh\necho 'Debian clang version 19.1.7'\n",
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {
        "'cc": "CC is not a valid command",
        "/no/such/compiler": "there is no C compiler",
        f"{folder}/broken": "cannot be run",
        f"{folder}/clang": "is clang, .* set CC to a gcc",  # its OpenMP threads are not torch's
    }


def test_a_compiler_or_folder_that_cannot_be_used_gives_one_sentence(tmp_path, monkeypatch):
    for compiler, why in bad_compilers(tmp_path).items():
        monkeypatch.setenv("CC", compiler)
        load_cpu_library.cache_clear()
        with pytest.raises(CpuKernelsError, match=why):
            load_cpu_library(tmp_path / "kernels")
    monkeypatch.delenv("CC")
    cpu_ops()
    (tmp_path / "kernels").write_text("")
    with pytest.raises(CpuKernelsError, match="cannot be stored in"):
        load_cpu_library(tmp_path / "kernels")
