"""Import rules, the size of the core, and what an import really loads.

The layers are in pyproject.toml; import-linter follows them through any number of imports.
"""

import ast
import json
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TENSOR_LIBRARIES = ("torch", "transformers", "triton", "numpy", "tokenizers", "safetensors", "gguf")
MAX_LINES_OF_CODE_IN_CORE = 1500
MAX_SECONDS_TO_IMPORT = 0.3
NO_CODE = ("COMMENT", "NL", "NEWLINE", "INDENT", "DEDENT", "ENDMARKER")


def lines_of_code(file: Path) -> int:
    """Lines that hold a token of code: no blank lines, comments or docstrings."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    # A string statement: the docstring of a module, class, function or field.
    strings = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr) and isinstance(getattr(node.value, "value", None), str)
    ]
    docstrings = {n for one in strings for n in range(one.lineno, one.end_lineno + 1)}
    no_code = {getattr(tokenize, name) for name in NO_CODE}
    with tokenize.open(file) as stream:
        code = {
            line
            for token in tokenize.generate_tokens(stream.readline)
            if token.type not in no_code
            for line in range(token.start[0], token.end[0] + 1)
        }
    return len(code - docstrings)


def run_python(code: str, *arguments: str, cwd: Path) -> str:
    child = subprocess.run(
        [sys.executable, "-c", code, *arguments], cwd=cwd, capture_output=True, text=True
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


def test_the_layers_hold_through_any_number_of_imports():
    linter = Path(sys.executable).with_name("lint-imports")
    result = subprocess.run(
        [linter, "--no-cache", "--no-logo"], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_core_stays_small_enough_to_read_in_an_afternoon():
    sizes = {file.name: lines_of_code(file) for file in (ROOT / "minivllm/core").glob("*.py")}
    assert sum(sizes.values()) <= MAX_LINES_OF_CODE_IN_CORE, sizes


def test_importing_minivllm_is_quick_and_loads_no_tensor_library(tmp_path):
    code = (
        "import json, sys, time; start = time.process_time(); import minivllm; "
        "print(json.dumps([time.process_time() - start, sorted(sys.modules)]))"
    )
    runs = [json.loads(run_python(code, cwd=tmp_path)) for _ in range(3)]
    assert set(runs[0][1]).isdisjoint(TENSOR_LIBRARIES)
    # Processor time of the fastest run; the others show how busy this machine is.
    assert min(seconds for seconds, _ in runs) < MAX_SECONDS_TO_IMPORT


def test_packages_without_tensor_code_import_no_tensor_library(tmp_path):
    code = """
import importlib, json, pkgutil, sys
loaded_by = {}
for package in map(importlib.import_module, sys.argv[1:]):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        before = set(sys.modules)
        importlib.import_module(module.name)
        loaded_by |= dict.fromkeys(set(sys.modules) - before, module.name)
print(json.dumps(loaded_by))
"""
    packages = ("core", "events", "server", "tui", "lessons")
    names = [f"minivllm.{name}" for name in packages]
    loaded_by = json.loads(run_python(code, *names, cwd=tmp_path))
    assert len(loaded_by) > 100
    assert {name: loaded_by[name] for name in TENSOR_LIBRARIES if name in loaded_by} == {}
