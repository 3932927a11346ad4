"""Loads a student's file under the name of the engine's module, before the engine imports it.

Then the whole engine, its invariants and the dashboard run with it. Order matters: a module that
was imported earlier has copied the engine's own names, so every check would pass.
"""

import ast
import sys
import traceback
from collections.abc import Collection, Mapping
from importlib import import_module
from importlib.machinery import ModuleSpec
from importlib.util import spec_from_file_location
from pathlib import Path
from types import CodeType, SimpleNamespace

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise


def import_files(files: Mapping[str, Path]) -> None:
    """Import each file as the engine's module of this name. Raises any error that a file raises."""
    if loaded := files.keys() & sys.modules.keys():
        raise ExerciseError(f"{', '.join(loaded)} is already imported: start a fresh process.")

    def find_spec(name: str, *_: object) -> ModuleSpec | None:
        return spec_from_file_location(name, files[name]) if name in files else None

    finder = SimpleNamespace(find_spec=find_spec)
    sys.meta_path.insert(0, finder)
    try:
        for name in files:
            import_module(name)
    finally:
        sys.meta_path.remove(finder)


def where_in(file: Path, error: BaseException, given: Collection[str] = ()) -> str:
    """The student's last line in the traceback outside of `given`, such as " in line 3, in pop"."""
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}" if error.lineno else " in the file"
    frames = lines_in(file, error)
    # A lambda or comprehension belongs to the function that it is in.
    own = [frame for frame in frames if frame[0].co_qualname.partition(".<locals>")[0] not in given]
    code, line = (own or frames or [(None, 0)])[-1]
    return f" in line {line}, in {code.co_name}" if code else ""


def lines_in(file: Path, error: BaseException) -> list[tuple[CodeType, int]]:
    """The traceback's frames in `file`."""
    frames = traceback.walk_tb(error.__traceback__)
    return [(at.f_code, line) for at, line in frames if at.f_code.co_filename == str(file)]


def imports_of(exercise: Exercise) -> list[str]:
    """What the exercise's module and its checks import."""
    checks = (exercise.folder / "behaviours.py").read_text(encoding="utf-8")
    body = ast.parse(exercise.source).body + ast.parse(checks).body
    names = [alias.name for node in body if isinstance(node, ast.Import) for alias in node.names]
    return names + [node.module for node in body if isinstance(node, ast.ImportFrom)]


def uses_tensors(exercise: Exercise) -> bool:
    """Whether the exercise's module needs NumPy, torch or Triton."""
    imported = () if exercise.finds_bug else imports_of(exercise)
    return any(name.partition(".")[0] in ("numpy", "torch", "triton") for name in imported)
