"""The house style that a machine can check; the rest is in CONTRIBUTING.md and up to the reader.

Every rule is checked over all files at once and reports all that break it, so one run is enough to
mend them.
"""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = ("minivllm", "kernels", "tui", "lessons")
MAX_FILE_LINES = 400
MIN_WORDS_IN_A_TEST_NAME = 4


def source_files() -> list[Path]:
    return sorted(file for folder in SOURCE_FOLDERS for file in (ROOT / folder).rglob("*.py"))


def files_of_tests() -> list[Path]:
    return sorted((ROOT / "tests").rglob("*.py"))


def relative(file: Path) -> str:
    return str(file.relative_to(ROOT))


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    return (
        node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))
    )


@pytest.mark.parametrize("arguments", [("check",), ("format", "--check")], ids=["check", "format"])
def test_ruff_finds_nothing_to_mend(arguments: tuple[str, ...]) -> None:
    ruff = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "--no-cache", "--output-format", "concise", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ruff.returncode == 0, f"`make format` mends most of it:\n{ruff.stdout}{ruff.stderr}"


def test_every_module_says_what_it_does_in_a_docstring() -> None:
    silent = [
        relative(file)
        for file in [*source_files(), *files_of_tests()]
        if not ast.get_docstring(ast.parse(file.read_text(encoding="utf-8")))
    ]
    assert silent == []


def test_no_source_file_is_too_long_to_read_at_once() -> None:
    lengths = {
        relative(file): len(file.read_text(encoding="utf-8").splitlines())
        for file in source_files()
    }
    assert {file: length for file, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_the_name_of_every_test_is_a_sentence() -> None:
    terse = [
        f"{relative(file)}: {function.name}"
        for file in files_of_tests()
        for function in functions(ast.parse(file.read_text(encoding="utf-8")))
        if function.name.startswith("test_")
        and len(function.name.removeprefix("test_").split("_")) < MIN_WORDS_IN_A_TEST_NAME
    ]
    assert terse == []
