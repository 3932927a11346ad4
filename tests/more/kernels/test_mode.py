"""When kernels are interpreted or compiled, and errors if Triton is missing or imported early."""

import os
import subprocess
import sys
from pathlib import Path

import support.model.needs_triton  # noqa: F401

WITHOUT_TRITON = """
import sys
sys.modules["triton"] = None  # what the import system takes for "not to be found"
import minivllm.kernels
from minivllm.kernels import reference
import torch
from minivllm.errors import ConfigError
from minivllm.runtime.attention.backend import get_attention_backend
from minivllm.runtime.kv_cache import KVCacheSpec
arguments = (KVCacheSpec(1, 1, 16, 4, torch.float32), 2, torch.device("cpu"), 1, 1, 8)
print(type(get_attention_backend("auto", *arguments)).__name__)
try:
    get_attention_backend("triton", *arguments)
except ConfigError as error:
    print(error)
"""


def run_python(code: str, cwd: Path, **variables: str) -> subprocess.CompletedProcess:
    """A fresh interpreter without a CUDA device, and with only these variables for Triton."""
    environment = {
        name: value for name, value in os.environ.items() if not name.startswith("TRITON")
    }
    environment |= {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"} | variables
    return subprocess.run(
        [sys.executable, "-c", code], cwd=cwd, env=environment, capture_output=True, text=True
    )


def test_triton_imported_too_early_is_an_error_that_names_the_variable(tmp_path):
    child = run_python("import triton; import minivllm.kernels.mode", tmp_path)
    assert child.returncode != 0
    assert "TritonModeError" in child.stderr
    assert "set the environment variable TRITON_INTERPRET=1" in child.stderr


def test_without_triton_a_cpu_works_and_asking_for_triton_says_how_to_get_it(tmp_path):
    child = run_python(WITHOUT_TRITON, tmp_path)
    assert child.returncode == 0, child.stderr
    backend, message = child.stdout.splitlines()
    # torch where there is no C compiler
    assert backend in ("CpuAttentionBackend", "TorchAttentionBackend")
    assert "Triton, which is not installed here" in message
