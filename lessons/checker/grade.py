"""Grading a folder of submissions: who passed what, in the formats that course software reads.

`DIR/STUDENT/` holds a student's files, flat or in a folder for each exercise. Every student gets
cases of their own: the seed follows from a secret of the teacher's and the student's name, so the
answers to one check are of no use to another.

The easy thing to get wrong is one submission that ends the run. Whatever is wrong with a student's
files is a result of that student's, with no points.
"""

import hashlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.check import Result, check, max_score_of
from minivllm.lessons.checker.child.sandbox import Submission

PATIENCE = 0.5
"""Seconds for making a failing case small: a student alone gets more (`check`), a class has to
end.
"""


class Grade(NamedTuple):
    """One student's work on one exercise."""

    student: str
    exercise: Exercise
    seed: int
    result: Result | None
    """None if there is no file."""
    max_score: int

    @property
    def score(self) -> int:
        return 0 if self.result is None else self.result.score

    @property
    def status(self) -> str:
        """pass, fail, or error for what could not be run."""
        if self.result is None or self.result.could_not_run is not None:
            return "error"
        return "pass" if self.result.passed else "fail"

    @property
    def file_hash(self) -> str:
        if self.result is None:
            return ""
        return "sha256:" + hashlib.sha256(self.result.file.read_bytes()).hexdigest()


def seed_for(secret: str, student: str, exercise: str) -> int:
    """The seed of a student's cases."""
    digest = hashlib.sha256(f"{secret}\0{student}\0{exercise}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def is_one_submission(folder: Path, exercises: list[Exercise]) -> bool:
    """Whether the folder is a student's own, as Gradescope gives it, and not one of many."""
    return any(_file_in(folder, exercise) is not None for exercise in exercises)


def grade(folder: Path, exercises: list[Exercise], secret: str) -> Iterator[Grade]:
    """Everybody's grades. Raises `ExerciseError` if there is nobody."""
    if not folder.is_dir():
        raise ExerciseError(f"{folder} is no folder: give one with a folder for each student.")
    if is_one_submission(folder, exercises):
        students = [folder]
    else:
        students = sorted(
            one for one in folder.iterdir() if one.is_dir() and not one.name.startswith(".")
        )
    if not students:
        raise ExerciseError(f"{folder} is empty: give a folder with a folder for each student.")
    for student in students:
        for exercise in exercises:
            yield grade_one(student, exercise, secret)


def grade_one(student: Path, exercise: Exercise, secret: str) -> Grade:
    """The grade of the student whose folder this is."""
    from minivllm.lessons.checker.cases.behaviour import behaviours_of

    seed = seed_for(secret, student.name, exercise.name)
    file = _file_in(student, exercise)
    most = max_score_of(behaviours_of(exercise.behaviours_module()))
    result = (
        None if file is None else check(exercise, Submission(file), seed=seed, patience=PATIENCE)
    )
    return Grade(student.name, exercise, seed, result, most)


def _file_in(student: Path, exercise: Exercise) -> Path | None:
    places = [student / exercise.name, student / exercise.package, student]
    files = [place / exercise.student_file for place in places]
    return next((file for file in files if file.is_file()), None)
