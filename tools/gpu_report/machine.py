"""Describes the machine of a GPU report, and checks whether it can run the report.

`nvidia-smi` only reads values and changes no setting; without it, these values are None.
"""

import os
import platform
import subprocess
import tomllib
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement

from minivllm import __version__
from minivllm.lab.common.environment import cpu_model

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("torch", "triton", "transformers", "numpy")
MIN_CAPABILITY = (8, 0)
"""Ampere: the first generation of GPUs with bfloat16 in the matrix units."""
MIN_FREE_BYTES = 8 << 30


def refusal() -> str | None:
    """Return why this machine cannot run the report, in one sentence; None if it can."""
    import torch

    if not torch.cuda.is_available():
        return (
            "There is no CUDA device: run the report on a machine with one, or add --dry-run to"
            " test the report itself."
        )
    capability = torch.cuda.get_device_capability()
    if capability < MIN_CAPABILITY:
        return (
            f"{torch.cuda.get_device_name()} has compute capability {_dotted(capability)} but the"
            f" report needs {_dotted(MIN_CAPABILITY)} or more: use a newer GPU."
        )
    free, _ = torch.cuda.mem_get_info()
    if free < MIN_FREE_BYTES:
        return (
            f"The device has {free / 2**30:.1f} GiB of free memory and the report needs"
            f" {MIN_FREE_BYTES / 2**30:.0f} GiB: end what else uses it, or take a larger GPU."
        )
    return _triton_refusal()


def _triton_refusal() -> str | None:
    needed = _triton_requirement()
    try:
        found = import_module("triton").__version__
    except Exception as error:  # a broken installation may raise anything
        return (
            f"Triton cannot be imported ({type(error).__name__}: {error}): install triton{needed}."
        )
    if not needed.contains(found, prereleases=True):
        return (
            f"Triton {found} is installed, but minivllm needs triton{needed}: install one of these"
            " versions."
        )
    return None


def _triton_requirement() -> Any:
    """The versions of Triton that pyproject.toml allows, as a `SpecifierSet`."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    requirements = (Requirement(text) for text in project["dependencies"])
    return next(
        requirement.specifier for requirement in requirements if requirement.name == "triton"
    )


def _dotted(capability: tuple[int, ...]) -> str:
    return ".".join(map(str, capability))


def describe_machine(results: Path) -> dict[str, Any]:
    """Return the `environment` of a stage's file.

    results: the report's folder; files in this folder do not count as changes of the code
    """
    return {
        "versions": {
            "python": platform.python_version(),
            "minivllm": __version__,
            **{package: _version(package) for package in PACKAGES},
        },
        "device": _describe_device(),
        "clocks": {"before": clocks(), "after": None},
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "commit": describe_commit(ROOT, results),
    }


def describe_commit(root: Path, results: Path) -> str | None:
    """Return a repository's commit, with `+changes` if files differ; None without git."""
    commit = _output("git", "-C", str(root), "rev-parse", "HEAD")
    if commit is None:
        return None
    everything = (
        [".", f":(exclude,literal){results.relative_to(root)}"]
        if results.is_relative_to(root)
        else ["."]
    )
    changes = _output("git", "-C", str(root), "status", "--porcelain", "--", *everything)
    return commit if changes is None else f"{commit}+changes"


def clocks() -> dict[str, float] | None:
    """The device's current clocks in MHz; None without a device."""
    answer = _ask_device("clocks.sm", "clocks.mem")
    return None if answer is None else {"sm_mhz": float(answer[0]), "memory_mhz": float(answer[1])}


def _describe_device() -> dict[str, Any] | None:
    import torch

    if not torch.cuda.is_available():
        return None
    properties = torch.cuda.get_device_properties(0)
    driver = _ask_device("driver_version")
    return {
        "name": properties.name,
        "driver": None if driver is None else driver[0],
        "compute_capability": f"{properties.major}.{properties.minor}",
        "memory_bytes": properties.total_memory,
        "multiprocessors": properties.multi_processor_count,
    }


def _ask_device(*fields: str) -> list[str] | None:
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "0").split(",")[0]
    if not visible:  # a dry run hides the device
        return None
    answer = _output(
        "nvidia-smi",
        "-i",
        visible,
        f"--query-gpu={','.join(fields)}",
        "--format=csv,noheader,nounits",
    )
    values = [] if answer is None else answer.splitlines()[0].split(", ")
    return (
        values
        if len(values) == len(fields) and all(value[:1].isdigit() for value in values)
        else None
    )


def _output(*command: str) -> str | None:
    """Return what a command prints; None if it cannot run, fails or prints nothing."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None if done.returncode == 0 else None


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
