"""What imports really load; `make lint` checks the layers themselves.

One of the three child processes of `make test`: this process has imported torch long ago.
"""

import json
import subprocess
import sys
from importlib import import_module
from inspect import getclosurevars
from pathlib import Path
from symtable import symtable

import minivllm

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


def test_every_lazy_name_of_a_room_is_in_its_module():
    package = Path(minivllm.__file__).parent
    for room in (package, *package.glob("*/"), *package.glob("*/*/")):
        init = room / "__init__.py"
        if init.is_file() and "__getattr__ = lazy_names(" in init.read_text():
            imported = import_module(".".join(room.relative_to(package.parent).parts))
            for name, module in getclosurevars(imported.__getattr__).nonlocals["homes"].items():
                text = (room / f"{module.replace('.', '/')}.py").read_text()
                assert name in symtable(text, module, "exec").get_identifiers(), (room, name)
