"""What imports really load; `make lint` checks the layers themselves.

One of the three child processes of `make test`: this process has imported torch long ago.
"""

import json
import subprocess
import sys

TENSOR_LIBRARIES = ("torch", "transformers", "triton", "numpy", "tokenizers", "safetensors", "gguf")
LATE = "minivllm.lessons.shown.kernel_looks minivllm.lessons.shown.real_weights"
"""Modules of the lessons with tensors, which a lesson imports when it runs."""
IMPORT_ALL_MODULES = """
import importlib, json, pkgutil, sys
loaded_by = {}
late, *packages = sys.argv[1:]
for package in map(importlib.import_module, packages):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if module.name in late.split():
            continue
        before = set(sys.modules)
        importlib.import_module(module.name)
        loaded_by |= dict.fromkeys(set(sys.modules) - before, module.name)
print(json.dumps(loaded_by))
"""


def test_packages_without_tensor_code_import_no_tensor_library(tmp_path):
    packages = [f"minivllm.{name}" for name in ("core", "events", "server", "tui", "lessons")]
    command = [sys.executable, "-c", IMPORT_ALL_MODULES, LATE, *packages]
    loaded_by = json.loads(subprocess.check_output(command, cwd=tmp_path, text=True))
    assert len(loaded_by) > 100
    assert {name: loaded_by[name] for name in TENSOR_LIBRARIES if name in loaded_by} == {}
