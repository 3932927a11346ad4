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
        "stub": "#!/bin/sh\nexit 1",  # what a Mac has before Xcode is installed
        "half-way": "#!/bin/sh\n[ $1 = --version ] || echo 'cc1: error: no space left' >&2; exit",
        "killed": "#!/bin/sh\n[ $1 = --version ] || kill -9 $$",
        "no output": "#!/bin/sh\nexit 0",
    }
    for name, text in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    return {
        "'cc": "CC is not a valid command",
        "/no/such/compiler": "there is no program /no/such/compiler, which CC names",
        f"{folder}/broken": "cannot be run",
        f"{folder}/stub": "is not a C compiler that works",
        f"{folder}/half-way": "could not build the kernels: cc1: error: no space left",
        f"{folder}/killed": "could not build the kernels: it gave no reason",
        f"'{folder}/no output'": "could not build the kernels: it gave no reason",
    }


def test_a_compiler_or_folder_that_cannot_be_used_gives_one_sentence(tmp_path, monkeypatch):
    for compiler, why in bad_compilers(tmp_path).items():
        monkeypatch.setenv("CC", compiler)
        load_cpu_library.cache_clear()
        with pytest.raises(CpuKernelsError, match=why):
            load_cpu_library(tmp_path / "kernels")
    monkeypatch.delenv("CC")
    cpu_ops()
    (tmp_path / "file").write_text("")
    with pytest.raises(CpuKernelsError, match="cannot be stored in"):
        load_cpu_library(tmp_path / "file")


def test_a_damaged_library_is_built_again(tmp_path):
    """One of another machine has another name; this one has ours, and cannot be loaded."""
    cpu_ops()
    (tmp_path / "damaged.so").write_bytes(b"half a library")
    source = {"small.c": "int answer(void) { return 42; }"}
    built = library._load_or_build(tmp_path / "damaged.so", source, library._compiler())
    assert built.answer() == 42
