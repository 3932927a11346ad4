"""Makes a student's file: the engine's own source without the bodies of some functions.

`info.toml` names these functions (holes), such as `BlockPool.touch`. All other code stays.
"""

import ast
from collections.abc import Iterator
from typing import NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise


class Hole(NamedTuple):
    """Lines, from 1: `first` of the function with its decorators, `begin` to `end` of the body."""

    name: str
    first: int
    begin: int
    end: int
    indent: str


def find_holes(exercise: Exercise) -> list[Hole]:
    """In the order of the source. Raises `ExerciseError` if one is missing or has no docstring."""
    functions, found = functions_in(exercise.source), []
    for name in exercise.holes:
        if (function := functions.get(name)) is None or ast.get_docstring(function) is None:
            must = f"must be a function of {exercise.module} with a docstring"
            raise ExerciseError(f"{name}, a hole of {exercise.name}, {must}.")
        docstring = function.body[0]
        lines = (first_line(function), docstring.end_lineno + 1, function.end_lineno)
        found.append(Hole(name, *lines, " " * docstring.col_offset))
    return sorted(found, key=lambda hole: hole.first)


def stub(exercise: Exercise) -> str:
    """The source in which a `TODO` that raises an error replaces the body of each hole."""
    lines, todo = exercise.source.splitlines(), f"TODO {exercise.name}"
    for name, _, begin, end, indent in reversed(find_holes(exercise)):
        what = name.rpartition(".")[2]
        lines[begin - 1 : end] = [
            f"{indent}# {todo}: {what}",
            f'{indent}raise NotImplementedError("{todo}: write {what}.")',
        ]
    return "\n".join(lines) + "\n"


def first_line(node: ast.stmt) -> int:
    return min(part.lineno for part in [node, *getattr(node, "decorator_list", ())])


def functions_in(source: str) -> dict[str, ast.FunctionDef]:
    """The functions of a module, and the methods of its classes as `Class.method`."""
    found = definitions_in(source)
    return {name: node for name, node in found if isinstance(node, ast.FunctionDef)}


def definitions_in(source: str) -> Iterator[tuple[str, ast.stmt]]:
    """All statements of a module and the methods of its classes, by name."""
    for node in ast.parse(source).body:
        name = getattr(node, "name", ast.unparse(node).partition(" = ")[0])
        yield name, node
        for inner in node.body if isinstance(node, ast.ClassDef) else ():
            if isinstance(inner, ast.FunctionDef):
                yield f"{name}.{inner.name}", inner
