"""Merges the files of several exercises into one source for each engine module.

A student's file is the engine's own module with some functions written anew, so most definitions in
it are equal to the engine's. Only the others count:

    engine          block-pool's file      lru's file         merged
    touch           touch, written         touch              block-pool's
    release         release, written       release            block-pool's
    popleft         popleft                popleft, written   lru's
                    _count_owners                             block-pool's, before its next neighbour

Every function keeps the lines and the file where it was written, so a traceback, a debugger and
Triton find the student's own text.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import NamedTuple

from minivllm.errors import ExerciseError


class OwnFile(NamedTuple):
    """A student's file for an exercise."""

    exercise: str
    file: str
    holes: tuple[str, ...]

    def parse(self) -> ast.Module:
        """Raises `ExerciseError` if the file is not Python."""
        try:
            return ast.parse(Path(self.file).read_bytes())
        except (SyntaxError, ValueError) as error:
            raise ExerciseError(f"{self.file} is not Python ({error}).") from error


class Change(NamedTuple):
    """A statement that the engine's module does not have, or not like this."""

    owner: str
    """The class that contains it; empty for the module."""
    path: str
    """Its name with its classes, such as `BlockPool.touch`."""
    node: ast.stmt
    before: str | None = None
    """For a new statement, the engine's statement behind it; empty at the end of a body."""


class Clash(NamedTuple):
    """Two exercises that define the same name in different ways."""

    path: str
    kept: str
    dropped: str


def merged_code(engine_file: Path, own_files: Sequence[OwnFile]) -> CodeType:
    """Compile the engine's module with the changes of all files; they must not clash."""
    tree = ast.parse(engine_file.read_bytes())
    chosen = _chosen(tree, own_files)[0]
    tree.body = _merged(tree.body, "", [change for change, _ in chosen.values()])
    written_in = {path: own.file for path, (_, own) in chosen.items()}
    return _with_own_files(compile(tree, str(engine_file), "exec"), written_in)


def clashes(engine_file: Path, own_files: Sequence[OwnFile]) -> list[Clash]:
    """The names that two files define differently, and that are a hole of neither.

    Of two such files, the later one is dropped. A hole always belongs to its own exercise.
    """
    return _chosen(ast.parse(engine_file.read_bytes()), own_files)[1]


def _chosen(
    tree: ast.Module, own_files: Sequence[OwnFile]
) -> tuple[dict[str, tuple[Change, OwnFile]], list[Clash]]:
    chosen: dict[str, tuple[Change, OwnFile]] = {}
    found = []
    for own in own_files:
        for change in _changes(tree.body, own.parse().body, "", own.holes):
            other = chosen.get(change.path)
            if other is None or change.path in own.holes:
                chosen[change.path] = change, own
            elif change.path not in other[1].holes and not _equal(other[0].node, change.node):
                found.append(Clash(change.path, other[1].exercise, own.exercise))
    return chosen, found


def _changes(
    ours: list[ast.stmt], theirs: list[ast.stmt], owner: str, holes: tuple[str, ...]
) -> Iterator[Change]:
    known, new = dict(_named(ours, owner)), []
    for path, node in _named(theirs, owner):
        own = known.get(path)
        if own is None:
            if not _is_docstring(node):
                new.append(Change(owner, path, node))
            continue
        yield from (change._replace(before=path) for change in new)
        new = []
        if isinstance(own, ast.ClassDef) and isinstance(node, ast.ClassDef):
            yield from _changes(own.body, node.body, path, holes)
        elif path in holes or not _equal(own, node):
            yield Change(owner, path, node)
    yield from (change._replace(before="") for change in new)


def _merged(body: list[ast.stmt], owner: str, changes: list[Change]) -> list[ast.stmt]:
    here = [change for change in changes if change.owner == owner]
    replaced = {change.path: change.node for change in here if change.before is None}
    merged = []
    for path, node in _named(body, owner):
        merged += [change.node for change in here if change.before == path]
        if isinstance(node, ast.ClassDef):
            node.body = _merged(node.body, path, changes)
        merged.append(replaced.get(path, node))
    return merged + [change.node for change in here if change.before == ""]


def _named(body: list[ast.stmt], owner: str) -> Iterator[tuple[str, ast.stmt]]:
    """Each statement with its path. A second definition of a name gets a number."""
    seen: dict[str, int] = {}
    for node in body:
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                name = node.name
            case ast.Assign(targets=[target]) | ast.AnnAssign(target=target):
                name = ast.unparse(target)
            case _:
                name = ast.unparse(node)
        seen[name] = seen.get(name, 0) + 1
        again = f" ({seen[name]})" if seen[name] > 1 else ""
        yield f"{owner}.{name}{again}" if owner else f"{name}{again}", node


def _is_docstring(node: ast.stmt) -> bool:
    return isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)


def _equal(one: ast.stmt, other: ast.stmt) -> bool:
    return ast.dump(one) == ast.dump(other)


def _with_own_files(code: CodeType, written_in: Mapping[str, str], own: str = "") -> CodeType:
    """Name the student's file in the code of each function that comes from it.

    own: the file of the function around this code
    """
    own = own or written_in.get(code.co_qualname, "")
    inner = tuple(
        _with_own_files(one, written_in, own) if isinstance(one, CodeType) else one
        for one in code.co_consts
    )
    return code.replace(co_consts=inner, co_filename=own or code.co_filename)
