"""Loads a student's module under the name of the engine's module, before the engine imports it.

Then the whole engine, its invariants and the dashboard run with the student's module (Stanford's
CS336 does this with adapters).

Order matters, because `from minivllm.core.block_pool import BlockPool` copies a name. A module that
was imported earlier would still use the engine's own code, so every check would pass.
"""

import ast
import sys
import traceback
from collections.abc import Collection, Iterator
from importlib import import_module
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise

TENSORS = {"numpy", "torch", "triton"}
_FUNCTION = (ast.FunctionDef, ast.AsyncFunctionDef)


def plug_in(module_name: str, file: Path) -> ModuleType:
    """Load `file` as the engine's module with this name. Raises any error that the file raises."""
    _raise_if_too_late(module_name)
    module = _load(module_name, file)
    parent, _, name = module_name.rpartition(".")
    setattr(import_module(parent), name, module)
    return module


def _raise_if_too_late(module_name: str) -> None:
    if module_name in sys.modules:
        raise ExerciseError(
            f"{module_name} is already imported: a student's module needs a fresh process."
        )


def _load(name: str, file: Path) -> ModuleType:
    # With a loader of ours, a link to a file of another name is Python, too.
    spec = spec_from_file_location(name, file, loader=SourceFileLoader(name, str(file)))
    module = module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module


def where_in(file: Path, error: BaseException, given: Collection[str] = ()) -> str:
    """The last line of the student's file in the traceback, such as " in line 3"; may be empty.

    given: qualified names of functions that the student does not write. An error in one of them
    is reported at the line that called it, if that line is the student's own.
    """
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}" if error.lineno else " in the file"
    frames = [
        (frame.f_code, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == str(file)
    ]
    # A lambda or comprehension belongs to the function that it is in.
    own = [one for one in frames if one[0].co_qualname.partition(".<locals>")[0] not in given]
    code, line = (own or frames or [(None, 0)])[-1]
    return f" in line {line}, in {code.co_name}" if code else ""


def given_functions(exercise: Exercise) -> set[str]:
    """The functions that are written already, as qualified names.

    Call this before the student's module is loaded.
    """
    return set(_functions_in(ast.parse(exercise.source))) - set(exercise.holes)


def _functions_in(node: ast.AST, prefix: str = "") -> Iterator[str]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _FUNCTION):
            yield prefix + child.name
        elif isinstance(child, ast.ClassDef):
            yield from _functions_in(child, f"{prefix}{child.name}.")
        else:
            yield from _functions_in(child, prefix)


def imports_of(exercise: Exercise) -> list[str]:
    """Modules that the exercise's module imports. None of these imports the exercise's module."""
    tree = ast.parse(exercise.source_file.read_text(encoding="utf-8"))
    names = [
        alias.name for node in tree.body if isinstance(node, ast.Import) for alias in node.names
    ]
    return names + [
        node.module for node in tree.body if isinstance(node, ast.ImportFrom) and node.module
    ]


def uses_tensors(exercise: Exercise) -> bool:
    """Whether the exercise's module needs NumPy, torch or Triton."""
    imported = () if exercise.is_hunt else imports_of(exercise)
    return not {name.partition(".")[0] for name in imported}.isdisjoint(TENSORS)
