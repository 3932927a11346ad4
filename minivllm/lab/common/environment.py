"""Where a measurement was taken: processor, versions, threads, and this process's peak memory.

A number without these is a rumour, so every bench puts them into its JSON.

Easy to get wrong: peak memory. `getrusage` hands a child the peak of the parent that started it, so
a small process started by a big one looks big. Linux's `VmHWM` begins anew with each program;
`getrusage` is only the way out where there is no /proc.
"""

import os
import platform
import resource
import sys
from importlib.metadata import version
from pathlib import Path

from minivllm import __version__


def describe_environment(*packages: str) -> dict[str, object]:
    """`versions` (python, minivllm and the distributions named) and `machine`, as they go into the
    JSON.
    """
    return {
        "versions": {
            "python": platform.python_version(),
            "minivllm": __version__,
            **{package: version(package) for package in packages},
        },
        "machine": {
            "cpu": cpu_model(),
            "cores": os.cpu_count(),
            "system": f"{platform.system()} {platform.machine()}",
        },
    }


def cpu_model() -> str:
    """The processor's name as it gives it; the architecture where it cannot be known."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


def peak_rss_bytes() -> int:
    """The most memory that this process has held so far (resident set), in bytes."""
    try:
        lines = Path("/proc/self/status").read_text().splitlines()
    except OSError:
        lines = []
    for line in lines:
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def set_num_threads(num_threads: int) -> None:
    """Let torch use this many threads, for every engine in this process. Imports torch."""
    import torch

    torch.set_num_threads(num_threads)
