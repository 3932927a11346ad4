"""Where a measurement ran: processor, versions, and this process's peak memory."""

import os
import platform
import resource
import sys
from importlib.metadata import version
from pathlib import Path

from minivllm import __version__


def describe_environment(*packages: str) -> dict[str, object]:
    """Return `versions` (python, minivllm, `packages`), `machine` and `preload` for the JSON."""
    return {
        "versions": {
            "python": platform.python_version(),
            "minivllm": __version__,
            **{package: version(package) for package in packages},
        },
        # Allocators and OpenMP libraries can change a speed by a quarter.
        "preload": os.environ.get("LD_PRELOAD"),
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
        },
    }


def cpu_model() -> str:
    """Return the processor's name, or the architecture if the name is not available."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def peak_rss_bytes() -> int:
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def set_num_threads(num_threads: int) -> None:
    """Set torch's number of threads for every engine in this process."""
    import torch  # late: this module is part of many commands' --help

    torch.set_num_threads(num_threads)
