"""The site's section of an exercise shows what a student gets, and not the solution."""

import re
from itertools import pairwise

import pytest
from support.tool_modules import load_tool

from minivllm.lessons.checker.catalogue import exercises, find_exercise
from minivllm.lessons.checker.holes import find_holes, stub

TABLES = load_tool("site/make_pages.py").course_tables


def pairs_of_lines(text: str) -> set[tuple[str, str]]:
    """A single line can be common (`else:`); a pair of lines is not."""
    return set(pairwise(line.strip() for line in text.splitlines() if line.strip()))


@pytest.mark.parametrize("name", [known.name for known in exercises() if not known.finds_bug])
def test_no_section_of_an_exercise_shows_its_solution_or_the_last_hint(name):
    exercise = find_exercise(name)
    text, lines = TABLES.exercise_section(exercise), exercise.source.splitlines()
    bodies = ["\n".join(lines[hole.begin - 1 : hole.end]) for hole in find_holes(exercise)]
    solution = set().union(*map(pairs_of_lines, bodies)) - pairs_of_lines(stub(exercise))
    assert pairs_of_lines(text) & solution == set()
    first, last = TABLES.escaped(exercise.hints[0]), TABLES.escaped(exercise.hints[-1])
    assert first in text and last not in text
    assert len(re.findall(rf"# TODO {name}$", text, re.M)) == len(exercise.holes)
