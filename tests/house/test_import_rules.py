"""What imports really load, and the size of the core; `make lint` checks the layers themselves.

One of the three child processes of `make test`: this process has imported torch long ago.
"""

import json
import subprocess
import sys
import tokenize
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TENSOR_LIBRARIES = ("torch", "transformers", "triton", "numpy", "tokenizers", "safetensors", "gguf")
MAX_LINES_OF_CODE_IN_CORE = 1500
BETWEEN_STATEMENTS = {tokenize.NEWLINE, tokenize.INDENT, tokenize.DEDENT}
NO_CODE = {tokenize.COMMENT, tokenize.NL, tokenize.ENDMARKER} | BETWEEN_STATEMENTS
IMPORT_ALL_MODULES = """
import importlib, json, pkgutil, sys
loaded_by = {}
for package in map(importlib.import_module, sys.argv[1:]):
    for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        before = set(sys.modules)
        importlib.import_module(module.name)
        loaded_by |= dict.fromkeys(set(sys.modules) - before, module.name)
print(json.dumps(loaded_by))
"""


def lines_of_code(file: Path) -> int:
    """Lines with code: not blank, not a comment, not part of a docstring."""
    code, begins = set(), True
    with tokenize.open(file) as stream:
        for token in tokenize.generate_tokens(stream.readline):
            is_docstring = begins and token.type == tokenize.STRING
            if token.type not in NO_CODE and not is_docstring:
                code |= set(range(token.start[0], token.end[0] + 1))
            if token.type not in (tokenize.COMMENT, tokenize.NL):
                begins = token.type in BETWEEN_STATEMENTS
    return len(code)


def test_the_core_stays_small_enough_to_read_in_an_afternoon():
    sizes = {file.name: lines_of_code(file) for file in (ROOT / "minivllm/core").glob("*.py")}
    assert sum(sizes.values()) <= MAX_LINES_OF_CODE_IN_CORE, sizes


def test_packages_without_tensor_code_import_no_tensor_library(tmp_path):
    packages = [f"minivllm.{name}" for name in ("core", "events", "server", "tui", "lessons")]
    command = [sys.executable, "-c", IMPORT_ALL_MODULES, *packages]
    loaded_by = json.loads(subprocess.check_output(command, cwd=tmp_path, text=True))
    assert len(loaded_by) > 100
    assert {name: loaded_by[name] for name in TENSOR_LIBRARIES if name in loaded_by} == {}
