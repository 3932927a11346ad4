"""Building the kernels in C: once, by several processes, with other flags, or not at all."""

import subprocess
import sys
from pathlib import Path

import pytest
from support.engine.identity_runs import base_of, run
from support.model.needs import cpu_ops
from support.patience import SOON

from minivllm.kernels.cpu import library
from minivllm.kernels.cpu.library import load_cpu_library
from minivllm.kernels.cpu.ops import CpuOps
from minivllm.runtime.loader import load_model
from minivllm.runtime.paths import default_cache_root
from minivllm.sampling_params import SamplingParams


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
    half_way = "#!/bin/sh\n[ $1 = --version ] || echo 'cc1: error: no space left' >&2; exit"
    programs = {
        "broken": ("\x7fELF and nothing more", "cannot be run"),
        "stub": ("#!/bin/sh\nexit 1", "is not a C compiler that works"),  # a Mac before Xcode
        "half-way": (half_way, "could not build the kernels: cc1: error: no space left"),
        "killed": ("#!/bin/sh\n[ $1 = --version ] || kill -9 $$", "kernels: it gave no reason"),
        "no output": ("#!/bin/sh\nexit 0", "could not build the kernels: it gave no reason"),
    }
    for name, (text, _) in programs.items():
        (folder / name).write_text(text)
        (folder / name).chmod(0o755)
    reasons = {f"'{folder}/{name}'": why for name, (_, why) in programs.items()}
    nonsense = "there is no program /no/such/compiler, which CC names"
    return reasons | {"'cc": "CC is not a valid command", "/no/such/compiler": nonsense}


def report(monkeypatch: pytest.MonkeyPatch, cache: Path) -> str:
    """Load the house model with kernels in this cache, run it, and return what it said of them."""
    monkeypatch.setenv("MINIVLLM_CACHE", str(cache))
    load_cpu_library.cache_clear()
    said: list[str] = []
    model = load_model(base_of("house"), said.append)
    [[tokens]], _ = run(model, [[5, 6, 7]], SamplingParams(max_tokens=2, ignore_eos=True))
    assert len(tokens) == 2 and len(said) == 1 and "\n" not in said[0]
    return said[0]


def test_a_compiler_or_folder_that_cannot_be_used_costs_a_sentence_and_speed(tmp_path, monkeypatch):
    cpu_ops()
    for compiler, why in bad_compilers(tmp_path).items():
        monkeypatch.setenv("CC", compiler)
        assert why in report(monkeypatch, tmp_path)
    monkeypatch.delenv("CC")
    (tmp_path / "file").write_text("")
    assert "the kernels cannot be stored in" in report(monkeypatch, tmp_path / "file")
    load_cpu_library.cache_clear()


def test_a_processor_older_than_avx2_costs_one_sentence_and_speed(monkeypatch):
    cpu_ops()
    monkeypatch.setattr(CpuOps, "instructions", "")  # as a library for such a processor answers
    assert "does not know AVX2" in report(monkeypatch, default_cache_root())


def test_a_damaged_library_is_built_again(tmp_path):
    """One of another machine has another name; this one has ours, and cannot be loaded."""
    cpu_ops()
    (tmp_path / "damaged.so").write_bytes(b"half a library")
    source = {"small.c": "int answer(void) { return 42; }"}
    built = library._load_or_build(tmp_path / "damaged.so", source, library._compiler())
    assert built.answer() == 42
