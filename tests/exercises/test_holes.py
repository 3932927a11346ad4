"""A student's file is made from the engine's source: the bodies of its holes are missing, and
nothing else.
"""

import ast

import pytest

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise, exercises, find_exercise
from minivllm.lessons.checker.holes import stub

SOURCE = '''class Pool:
    """Some blocks."""

    @property
    def size(self) -> int:
        """How many."""
        # All of them.
        return 7

    def take(
        self,
        number: int,
    ) -> int:
        """One of them.

        Say which.
        """
        if number < 7:
            return number
        return 6


def size() -> int:
    """Not the pool's."""
    return 8


def silent():
    return 9
'''


class _Small(Exercise):
    """An exercise on the source above."""

    @property
    def source(self) -> str:
        return SOURCE


def small(*holes: str) -> Exercise:
    return _Small(*find_exercise("block-pool")._replace(name="small", holes=holes))


def test_a_stub_keeps_everything_but_the_bodies_of_its_holes():
    made = stub(small("Pool.take", "Pool.size"))
    for line in SOURCE.splitlines():
        gone = line.strip() in (
            "# All of them.",
            "return 7",
            "if number < 7:",
            "return number",
            "return 6",
        )
        assert (line in made.splitlines()) is not gone, line


def test_the_parts_of_a_stub_are_numbered_from_top_to_bottom_and_say_what_is_missing():
    namespace: dict = {}
    exec(stub(small("Pool.take", "Pool.size")), namespace)
    pool = namespace["Pool"]()
    with pytest.raises(NotImplementedError, match=r"TODO small, part 1: write this\."):
        _ = pool.size
    with pytest.raises(NotImplementedError, match=r"TODO small, part 2: write this\."):
        pool.take(3)
    assert namespace["size"]() == 8


@pytest.mark.parametrize("hole", ["Pool.gone", "take", "silent"])
def test_a_hole_that_is_not_there_or_says_nothing_is_refused_by_its_name(hole: str):
    with pytest.raises(ExerciseError, match=f"^{hole}, a hole of small, must be"):
        stub(small("size", hole))


@pytest.mark.parametrize("exercise", exercises(), ids=lambda exercise: exercise.name)
def test_every_stub_is_python_with_a_hole_for_each_name(exercise: Exercise):
    made = stub(exercise)
    ast.parse(made)
    assert made.count(f"# TODO {exercise.name}, part ") == len(exercise.holes) > 0


def test_the_holes_are_named_for_people_with_each_class_once():
    assert small("Pool.size", "Pool.take", "size").symbol == "Pool.size, take, size"
