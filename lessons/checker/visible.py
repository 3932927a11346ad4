"""Runs an exercise's visible tests without pytest, and reports the line that failed in each test.

Students can also run `pytest visible_test.py` in their workspace.
"""

import ast
import linecache
import sys
import traceback
from collections.abc import Iterator
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

PASSED = "passed"


def run_visible_tests(file: Path) -> Iterator[str]:
    """Yield `name: passed`, or `name: what failed`, for each test."""
    spec = spec_from_file_location("visible_test", file)
    module = module_from_spec(spec)
    sys.modules["visible_test"] = module
    spec.loader.exec_module(module)
    for name, test in list(vars(module).items()):
        if name.startswith("test_") and callable(test):
            yield f"{name}: {_run(test, file)}"


def names_of_tests(file: Path) -> list[str]:
    """The tests of a file, in their order, without running it."""
    return [
        node.name
        for node in ast.parse(file.read_text(encoding="utf-8")).body
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
    ]


def _run(test: object, file: Path) -> str:
    try:
        test()
    except Exception as error:
        frame = [
            one for one in traceback.extract_tb(error.__traceback__) if one.filename == str(file)
        ][-1]
        code = linecache.getline(str(file), frame.lineno).strip()
        said = f" ({type(error).__name__}{f': {error}' if str(error) else ''})"
        return f"line {frame.lineno} failed: {code}{said}"
    return PASSED
