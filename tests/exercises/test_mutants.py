"""Each solution is changed in one place, and the check must notice every change."""

import ast
from collections.abc import Iterator

import pytest

from minivllm.lessons.checker.catalogue import Exercise, exercises
from minivllm.lessons.checker.check import run_behaviours
from minivllm.lessons.checker.child.sandbox import Submission
from minivllm.lessons.checker.holes import find_holes

SWAPS = (
    ("== 0", "!= 0"), ("> 0", ">= 0"), ("== 0", "<= 1"), ("+= 1", "+= 2"), ("-= 1", "-= 2"),
    (" <= ", " < "), ("- 1)", ")"), ("is not None", "is None"), ("is None", "is not None"),
    ("break", "continue"), ("append(", "prepend("), ("prepend(", "append("), ("+ 1", "+ 0"),
    ("[-1]", "[0]"), (".pop()", ".pop(0)"), ("next_free", "prev_free"), (" < ", " <= "),
    (" // ", " % "), (" % ", " // "), (" * ", " + "), ("start + ", "start - "),
)  # fmt: skip


EQUIVALENT = {
    "while index < len(running) and budget > 0:  ->  while index < len(running) and budget >= 0:":
        "without budget everybody gets 0 tokens, and whoever gets 0 is passed over",
    "if any(p.min_p > 0.0 for p in params):  ->  if any(p.min_p >= 0.0 for p in params):":
        "a shortcut: no weight is less than 0",
    "return None  ->  pass": "the end of a function returns None",
    "if self._workspace.numel() < size:  ->  if self._workspace.numel() <= size:":
        "one more allocation",
    "self._workspace = cache.new_empty(size)  ->  pass":
        "`out=` makes room where there is too little",
    "q = q.to(tl.float32)  ->  pass": "a product with the keys, which are float32, is float32",
    "block_tables = wide_enough(block_tables, key_cache)  ->  pass":
        "no case has a cache of 2^31 numbers",
    'self._held_back = ""  ->  pass':
        "after a stop the sequence has ended, and nobody feeds or flushes any more",
    "return False  ->  pass": "None counts as False, too",
}  # fmt: skip
"""Changes without an effect, with the reason."""


def mutants(exercise: Exercise) -> Iterator[tuple[str, str]]:
    """(description, whole source), each different from the engine's own in one solution line."""
    lines = exercise.source.splitlines()
    for hole in find_holes(exercise):
        for number in range(hole.begin - 1, hole.end):
            line = lines[number].partition("  # ")[0]
            if line.lstrip().startswith("#"):
                continue
            changed = [line.replace(old, new, 1) for old, new in SWAPS if old in line]
            changed.append(line[: len(line) - len(line.lstrip())] + "pass")
            for other in changed:
                source = "\n".join([*lines[:number], other, *lines[number + 1 :]]) + "\n"
                if _is_python(source):
                    yield f"{line.strip()}  ->  {other.strip()}", source


def _is_python(source: str) -> bool:
    try:
        ast.parse(source)
    except SyntaxError:
        return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "exercise",
    [one for one in exercises() if not one.is_hunt and not one.is_open],
    ids=lambda exercise: exercise.name,
)
def test_no_solution_with_one_small_mistake_passes(exercise, tmp_path):
    file = tmp_path / exercise.student_file
    passed, tried = [], 0
    for what, source in mutants(exercise):
        file.write_text(source, encoding="utf-8")
        tried += 1
        if what not in EQUIVALENT and run_behaviours(exercise, Submission(file), patience=0).passed:
            passed.append(what)
    assert tried >= 3
    assert passed == []
