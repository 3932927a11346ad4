"""Markers in the engine's source, and the stubs made from it."""

import ast

import pytest

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import exercises
from minivllm.lessons.checker.markers import regions, solution, stub

SOURCE = '''def one():
    """Says one."""
    # BEGIN SOLUTION first
    return 1
    # END SOLUTION


def two():
    # BEGIN SOLUTION second
    two = 2
    return two
    # END SOLUTION


def three():
    # BEGIN SOLUTION first
    return 3
    # END SOLUTION
'''


def test_a_stub_keeps_docstrings_and_the_solutions_of_other_exercises():
    made = stub(SOURCE, "first")
    assert '"""Says one."""' in made and "return two" in made
    assert "return 1" not in made and "return 3" not in made
    assert "SOLUTION" not in made
    assert made.count("raise NotImplementedError") == 2
    assert made.index("TODO first, part 1") < made.index("def two") < made.index("TODO first, part 2")


def test_a_solution_is_what_stands_in_the_holes():
    assert solution(SOURCE, "first") == ["    return 1", "    return 3"]


@pytest.mark.parametrize(
    "source",
    [
        "# BEGIN SOLUTION a\nx = 1\n",
        "# END SOLUTION\n",
        "# BEGIN SOLUTION a\n# BEGIN SOLUTION b\n# END SOLUTION\n",
    ],
)
def test_markers_that_do_not_match_are_an_error(source: str):
    with pytest.raises(ExerciseError, match=r"line [12]|Line [12]"):
        regions(source)


def test_an_exercise_that_is_not_marked_has_no_stub():
    with pytest.raises(ExerciseError, match="third"):
        stub(SOURCE, "third")


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_every_stub_is_python_with_a_hole_for_each_region(exercise):
    source = exercise.source_file.read_text(encoding="utf-8")
    made = stub(source, exercise.name)
    ast.parse(made)
    holes = [region for region in regions(source) if region.exercise == exercise.name]
    assert made.count(f"# TODO {exercise.name}, part ") == len(holes) > 0


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_every_marked_name_is_an_exercise(exercise):
    marked = {region.exercise for region in regions(exercise.source_file.read_text(encoding="utf-8"))}
    assert marked <= {one.name for one in exercises()}
