"""All of a student's passed pieces together in one engine: `minivllm exercise demo --all-passed`.

Each module that a piece belongs to becomes one file: the student's file of the first exercise, with
the functions that the other exercises asked for taken from their files. A piece that passes its own
exercise can still be wrong beside others. So a child process first runs the capstone's scenario on
the pieces, on a virtual clock, and must give the events of the engine's own code. If it does not,
the pieces are added one by one, and those that make a difference are left out.
"""

import ast
import hashlib
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.pieces_engine import SECONDS
from minivllm.lessons.checker.child.sandbox import Child, Reply
from minivllm.lessons.checker.report import engines_at, yours_at
from minivllm.lessons.checker.search import Counterexample
from minivllm.lessons.checker.workspace import Workspace
from minivllm.lessons.teacher.progress import ExerciseProgress
from minivllm.text import clean

BESIDE_THE_ENGINE = ("minivllm.events.", "minivllm.kernels.")
"""Readers of an engine's events, and kernels that a CPU interprets for seconds a step."""


class OwnPiece(NamedTuple):
    """A passed exercise, and the student's file."""

    exercise: Exercise
    file: Path


class LeftOut(NamedTuple):
    name: str
    why: str
    """The end of a sentence, without a full stop."""


class Collection(NamedTuple):
    pieces: list[OwnPiece]
    left_out: list[LeftOut]


# ---- which pieces ----


def collect(
    workspace: Workspace,
    done: Mapping[str, ExerciseProgress],
    still_passes: Callable[[Exercise, Path], bool],
) -> Collection:
    """Find the pieces of all passed exercises, in the order of the course.

    done: what is recorded; still_passes: checks a file that has changed since it passed
    """
    found = Collection([], [])
    for exercise in workspace.started():
        entry, file = done.get(exercise.name), workspace.file(exercise)
        if entry is None or not entry.passed or exercise.is_hunt:
            continue
        if exercise.is_open or exercise.module.startswith(BESIDE_THE_ENGINE):
            alone = f"it runs alone: `minivllm exercise demo {exercise.name}`"
            found.left_out.append(LeftOut(exercise.name, alone))
        elif not exercise.runs_in_engine:
            found.left_out.append(LeftOut(exercise.name, "no engine runs such code"))
        elif digest_of(exercise, file) == entry.passed_file or still_passes(exercise, file):
            found.pieces.append(OwnPiece(exercise, file))
        else:
            why = "its file has changed and no longer passes"
            found.left_out.append(LeftOut(exercise.name, why))
    return found


def digest_of(exercise: Exercise, file: Path) -> str:
    """Identify a file together with the engine's source that it was checked against."""
    ours = b"" if exercise.is_hunt else exercise.source_file.read_bytes()
    return hashlib.sha256(ours + b"\0" + file.read_bytes()).hexdigest()


# ---- one file for each module ----


def write_modules(pieces: Sequence[OwnPiece], folder: Path) -> None:
    """Write a file for each module, named as `minivllm.core.block_pool.py`."""
    texts: dict[str, str] = {}
    for exercise, file in pieces:
        text = file.read_text(encoding="utf-8")
        base = texts.get(exercise.module)
        texts[exercise.module] = text if base is None else _with_holes(base, text, exercise.holes)
    for module, text in texts.items():
        (folder / f"{module}.py").write_text(text, encoding="utf-8")


def _with_holes(base: str, text: str, holes: Sequence[str]) -> str:
    """`base` with the functions `holes` of `text`, and with what else only `text` defines."""
    theirs, lines = dict(_definitions(text)), base.splitlines()
    ours = dict(_definitions(base))
    for name in sorted(holes, key=lambda name: ours[name][0], reverse=True):
        begin, end, _ = ours[name]
        lines[begin - 1 : end] = [theirs[name][2]]
    more = [one for name, (_, _, one) in theirs.items() if "." not in name and name not in ours]
    return "\n".join([*lines, *more]) + "\n"


def _definitions(text: str) -> Iterator[tuple[str, tuple[int, int, str]]]:
    """(name, (first line, last line, source)) of each definition of a module and of its classes."""
    lines = text.splitlines()

    def entry(node: ast.stmt) -> tuple[int, int, str]:
        begin = min([node.lineno, *(one.lineno for one in getattr(node, "decorator_list", ()))])
        return begin, node.end_lineno, "\n".join(lines[begin - 1 : node.end_lineno])

    for node in ast.parse(text).body:
        name = getattr(node, "name", ast.unparse(node).partition(" = ")[0])
        yield name, entry(node)
        if isinstance(node, ast.ClassDef):
            functions = (one for one in node.body if isinstance(one, ast.FunctionDef))
            yield from ((f"{name}.{one.name}", entry(one)) for one in functions)


# ---- the trial ----


def try_together(pieces: Sequence[OwnPiece]) -> Collection:
    """The pieces that run together as the engine does; and of the others, what they change.

    Raises `ExerciseError` if not even the engine's own code runs.
    """
    names = [piece.exercise.name for piece in pieces]
    own = run_scenario([], names)
    if own.failure is not None:
        raise ExerciseError(f"The trial does not work here: {own.failure.text}")

    def difference(some: Sequence[OwnPiece]) -> Counterexample | None:
        return _difference(own, run_scenario(some, names))

    if difference(pieces) is None:
        return Collection(list(pieces), [])
    found = Collection([], [])
    for piece in pieces:
        changed = difference([*found.pieces, piece])
        if changed is None:
            found.pieces.append(piece)
        else:
            found.left_out.append(LeftOut(piece.exercise.name, _what_it_changes(changed)))
    return found


def run_scenario(pieces: Sequence[OwnPiece], names: Sequence[str]) -> Reply:
    """All events of the capstone's scenario on an engine with these pieces.

    names: the exercises whose options the engine has
    """
    with tempfile.TemporaryDirectory(prefix="minivllm-pieces-") as folder:
        try:
            write_modules(pieces, Path(folder))
        except (SyntaxError, KeyError) as error:
            raise ExerciseError(f"The files cannot be put together: {error}.") from error
        command = ["-m", "minivllm.lessons.checker.child.pieces_engine", folder, *names]
        with Child(command, SECONDS) as child:
            return child.ask({})


def _difference(own: Reply, together: Reply) -> Counterexample | None:
    expected, actual, failure = own.lines, together.lines, together.failure
    pairs = enumerate(zip(expected, actual, strict=False))
    index = next((i for i, (a, b) in pairs if a != b), min(len(expected), len(actual)))
    if failure is None and index == len(expected) == len(actual):
        return None
    return Counterexample({}, expected, actual, index, failure)


def _what_it_changes(found: Counterexample) -> str:
    if found.failure is not None:
        return clean(found.failure.text).rstrip(".")
    return clean(f"the engine says {engines_at(found)}, and with your code {yours_at(found)}")
