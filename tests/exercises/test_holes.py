"""A student's file is the engine's source without the bodies of its holes."""

import pytest

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise, exercises, find_exercise
from minivllm.lessons.checker.holes import find_holes, stub

SOURCE = '''class Pool:
    """Some blocks."""

    @property
    def size(self) -> int:
        """How many."""
        # All of them.
        return 7

    def take(
        self,
    ) -> int:
        """One of them.

        Say which.
        """
        if self.size < 7:
            return 5
        return 6


def size() -> int:
    """Not the pool's."""
    return 8


def silent():
    return 9
'''


class _Small(Exercise):
    @property
    def source(self) -> str:
        return SOURCE


def small(*holes: str) -> Exercise:
    return _Small(*find_exercise("block-pool")._replace(name="small", holes=holes))


def test_the_bodies_of_the_holes_are_gone_and_each_todo_has_the_name_of_its_function():
    made = stub(small("Pool.take", "Pool.size"))
    gone = ["# All of them.", "return 7", "if self.size < 7:", "return 5", "return 6"]
    kept = [line for line in SOURCE.splitlines() if line.strip() not in gone]
    assert [line for line in made.splitlines() if line in SOURCE.splitlines()] == kept
    namespace: dict = {}
    exec(made, namespace)
    pool = namespace["Pool"]()
    with pytest.raises(NotImplementedError, match=r"^TODO small: write size\.$"):
        _ = pool.size
    with pytest.raises(NotImplementedError, match=r"^TODO small: write take\.$"):
        pool.take()
    assert namespace["size"]() == 8
    todos = [line.strip() for line in made.splitlines() if "# TODO" in line]
    assert todos == ["# TODO small: size", "# TODO small: take"]


def test_holes_are_listed_from_top_to_bottom():
    for exercise in (each for each in exercises() if not each.finds_bug):
        written = [hole.name for hole in find_holes(exercise)]
        assert written == list(exercise.holes)


@pytest.mark.parametrize("hole", ["Pool.gone", "take", "silent"])
def test_a_missing_or_undocumented_hole_is_refused_by_its_name(hole):
    with pytest.raises(ExerciseError, match=f"^{hole}, a hole of small, must be"):
        stub(small("size", hole))
