"""The house style that a machine can check; the rest is in CONTRIBUTING.md.

Each rule reports every violation in all files at once.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE_FOLDERS = ("minivllm", "kernels", "tui", "lessons")
MAX_FILE_LINES = 400
MIN_WORDS_IN_A_TEST_NAME = 4


def texts(*folders: str) -> dict[str, str]:
    """The Python files below these folders, by their paths in the repository."""
    files = sorted(file for folder in folders for file in (ROOT / folder).rglob("*.py"))
    return {str(file.relative_to(ROOT)): file.read_text(encoding="utf-8") for file in files}


@pytest.mark.parametrize("arguments", [("check",), ("format", "--check")], ids=["check", "format"])
def test_ruff_finds_nothing_to_mend(arguments):
    ruff = subprocess.run(
        [sys.executable, "-m", "ruff", *arguments, "--no-cache", "--output-format", "concise", "."],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert ruff.returncode == 0, f"`make format` fixes most of it:\n{ruff.stdout}{ruff.stderr}"


def test_every_module_says_what_it_does_in_a_docstring():
    files = texts(*SOURCE_FOLDERS, "tests")
    assert [file for file, text in files.items() if not ast.get_docstring(ast.parse(text))] == []


def test_no_source_file_is_too_long_to_read_at_once():
    lengths = {file: len(text.splitlines()) for file, text in texts(*SOURCE_FOLDERS).items()}
    assert {file: length for file, length in lengths.items() if length > MAX_FILE_LINES} == {}


def test_the_name_of_every_test_is_a_sentence():
    terse = [
        f"{file}: test_{name}"
        for file, text in texts("tests").items()
        for name in re.findall(r"def test_(\w+)\(", text)
        if len(name.split("_")) < MIN_WORDS_IN_A_TEST_NAME
    ]
    assert terse == []


def test_a_public_class_has_a_name_of_its_own():
    """Exercises hold several versions of a class, and a peer's script stands alone."""
    found: dict[str, list[str]] = {}
    for file, text in texts(*SOURCE_FOLDERS).items():
        if "exercises/" in file or "peer_side/" in file or "/wrong" in file:
            continue
        for node in ast.parse(text).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                found.setdefault(node.name, []).append(file)
    assert {name: files for name, files in found.items() if len(files) > 1} == {}
