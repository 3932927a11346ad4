"""Checks of the machine: C compiler, memory, disk."""

import os
import shutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from minivllm.cli.doctor.finding import Finding, advice, bad, ok
from minivllm.runtime.paths import default_cache_root
from minivllm.runtime.progress import format_bytes

LEAST_MEMORY, GOOD_MEMORY = 1_000_000_000, 3_000_000_000
"""For torch with the house model, and for the chat model in float32 with 1 GB of KV cache."""
LEAST_DISK, GOOD_DISK = 50_000_000, 1_000_000_000
"""For built kernels and recordings, and for the chat model while it is converted."""
COMPILER_SECONDS = 60
_TRY_KERNELS = """
import torch
from minivllm.kernels import reference_ops
from minivllm.runtime.cpu.load import load_cpu_ops
ops = load_cpu_ops()
x = torch.linspace(-2, 2, 64).reshape(2, 32)
assert torch.allclose(ops.silu_and_mul(x), reference_ops.silu_and_mul(x), atol=1e-5)
if not ops.linear_is_fast:
    print("no AVX2, so oneDNN multiplies, and weights become float32")
elif ops.bf16_way == "float32":
    print("no fast bfloat16, so it runs on float32 units")
else:
    print(f"bfloat16 runs on {ops.bf16_way}")
"""


def check_compiler() -> Finding:
    """In a separate process, build the C kernels if needed, and run one of them."""
    slower = "the engine runs without it, a few times slower"
    if find_spec("torch") is None:
        return advice("compiler", "not tried: the C kernels need torch, install that first")
    try:
        tried = subprocess.run(
            [sys.executable, "-c", _TRY_KERNELS],
            capture_output=True,
            text=True,
            timeout=COMPILER_SECONDS,
        )
    except subprocess.TimeoutExpired:
        return advice("compiler", f"took over {COMPILER_SECONDS} seconds ({slower})")
    if tried.returncode == 0:
        extent = tried.stdout.strip()
        return ok(
            "compiler", f"the C kernels were compiled and compute the right numbers; {extent}"
        )
    last = (tried.stderr.strip().splitlines() or [f"exit status {tried.returncode}"])[-1]
    reason = last.rpartition("CpuKernelsError: ")[2].rstrip(".")
    return advice("compiler", f"{reason}: install gcc, or set CC to it ({slower})")


def check_memory(root: Path = Path("/")) -> Finding:
    try:
        from minivllm.runtime.kv_cache import available_cpu_memory
    except ModuleNotFoundError as error:
        return advice("memory", f"not known without the package {error.name}")
    free = available_cpu_memory(root)
    if free is None:
        return ok("memory", "this system does not say how much is available")
    found = f"{format_bytes(free)} available"
    if free < LEAST_MEMORY:
        return bad(
            "memory", f"{found}, but {format_bytes(LEAST_MEMORY)} are needed: close programs"
        )
    if free < GOOD_MEMORY:
        return advice("memory", f"{found}: enough for the house model, little for the chat model")
    return ok("memory", found)


def check_disk(cache: Path | None = None) -> Finding:
    """Check free space and write permission where models and kernels are stored."""
    cache = default_cache_root() if cache is None else cache
    there = next(folder for folder in (cache, *cache.parents) if folder.is_dir())
    if not os.access(there, os.W_OK):
        return advice("disk", f"{cache} is read-only: set MINIVLLM_CACHE to a folder that is not")
    free = shutil.disk_usage(there).free
    found = f"{format_bytes(free)} free in {cache}"
    elsewhere = "free some, or set MINIVLLM_CACHE to a folder on a larger disk"
    if free < LEAST_DISK:
        return bad("disk", f"{found}: {elsewhere}")
    if free < GOOD_DISK:
        return advice("disk", f"{found}, too little for the chat model: {elsewhere}")
    return ok("disk", found)
