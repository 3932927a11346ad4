"""The solution is the engine's own source: `# BEGIN SOLUTION name` ... `# END SOLUTION` mark what a student writes.

A stub is the same file in which the marked lines of one exercise give way to a `TODO` that raises; docstrings, signatures
and all other code stay. So a stub cannot fall behind the engine. Markers of other exercises vanish, with their code in
place. The easy thing to get wrong is a marker that is not closed: it would hand out, or swallow, half of the file.
"""

import re
from typing import NamedTuple

from minivllm.errors import ExerciseError

_BEGIN = re.compile(r"^(?P<indent>\s*)# BEGIN SOLUTION (?P<name>[a-z0-9-]+)$")
_END = re.compile(r"^\s*# END SOLUTION$")


class Region(NamedTuple):
    """The marked lines of one exercise in a source text."""

    exercise: str
    indent: str
    begin: int
    """Line of the opening marker, from 0."""
    end: int
    """Line of the closing one."""


def regions(source: str) -> list[Region]:
    """All marked regions, in their order. Raises `ExerciseError` for markers that do not match."""
    found: list[Region] = []
    opened: re.Match[str] | None = None
    begin = 0
    for number, line in enumerate(source.splitlines()):
        if match := _BEGIN.match(line):
            if opened:
                raise ExerciseError(
                    f"Line {number + 1}: a solution begins before the one of line {begin + 1} has ended."
                )
            opened, begin = match, number
        elif _END.match(line):
            if not opened:
                raise ExerciseError(f"Line {number + 1}: a solution ends and none has begun.")
            found.append(Region(opened["name"], opened["indent"], begin, number))
            opened = None
    if opened:
        raise ExerciseError(f"Line {begin + 1}: this solution has no end.")
    return found


def stub(source: str, exercise: str) -> str:
    """The source with a hole for each region of `exercise`. Raises `ExerciseError` if it has none."""
    lines = source.splitlines()
    marked = regions(source)
    if all(region.exercise != exercise for region in marked):
        raise ExerciseError(f"No solution of {exercise!r} is marked in the engine's source.")
    number = sum(region.exercise == exercise for region in marked)
    for region in reversed(marked):
        inside = lines[region.begin + 1 : region.end]
        if region.exercise == exercise:
            todo = f'raise NotImplementedError("TODO {exercise}, part {number}: write this.")'
            inside = [f"{region.indent}# TODO {exercise}, part {number}", f"{region.indent}{todo}"]
            number -= 1
        lines[region.begin : region.end + 1] = inside
    return "\n".join(lines) + "\n"


def solution(source: str, exercise: str) -> list[str]:
    """What stands in each hole, without markers: shown to those who have passed."""
    lines = source.splitlines()
    return [
        "\n".join(lines[region.begin + 1 : region.end]) for region in regions(source) if region.exercise == exercise
    ]
