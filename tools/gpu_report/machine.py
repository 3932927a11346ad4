"""Describes the machine of a GPU report, and checks whether it can make one."""

import subprocess
from importlib import import_module
from importlib.metadata import requires
from pathlib import Path
from typing import Any

import torch
from packaging.requirements import Requirement

from minivllm.lab.common.report import describe_environment

ROOT = Path(__file__).resolve().parents[2]
MIN_CAPABILITY = (8, 0)
"""Ampere: the first generation of GPUs with bfloat16 in the matrix units."""
MIN_FREE_BYTES = 8 << 30


def refusal() -> str | None:
    """Return why this machine cannot make the report, in one sentence; None if it can."""
    if not torch.cuda.is_available():
        return (
            "There is no CUDA device: run the report on a machine with one, or add --dry-run to"
            " test the report itself."
        )
    capability = torch.cuda.get_device_capability()
    if capability < MIN_CAPABILITY:
        return (
            f"{torch.cuda.get_device_name()} has compute capability {capability}, but the report"
            f" needs {MIN_CAPABILITY} or more: use a newer GPU."
        )
    free, _ = torch.cuda.mem_get_info()
    if free < MIN_FREE_BYTES:
        return (
            f"The device has {free / 2**30:.1f} GiB of free memory and the report needs"
            f" {MIN_FREE_BYTES / 2**30:.0f} GiB: end what else uses it, or take a larger GPU."
        )
    needed = next(need for need in map(Requirement, requires("minivllm")) if need.name == "triton")
    try:
        found = import_module("triton").__version__
    except Exception as error:  # a broken installation may raise anything
        return f"Triton cannot be imported ({type(error).__name__}: {error}): install {needed}."
    if not needed.specifier.contains(found, prereleases=True):
        return f"Triton {found} is installed, but minivllm needs {needed.specifier}: install that."
    return None


def describe_machine() -> dict[str, Any]:
    """Versions, machine, device (`nvidia-smi` only reads) and commit; None for what is missing."""
    fields = "name,driver_version,memory.total,clocks.max.sm,clocks.max.mem"
    return {
        **describe_environment("torch", "triton", "transformers", "numpy"),
        "device": _output("nvidia-smi", f"--query-gpu={fields}", "--format=csv,noheader"),
        "commit": _output("git", "-C", str(ROOT), "describe", "--always", "--dirty", "--abbrev=40"),
    }


def _output(*command: str) -> str | None:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
