"""Grades a folder of submissions, in the formats of course software.

The folder `DIR/STUDENT/` has a student's files, with or without a folder per exercise. Each student
gets different cases, because the seed depends on the teacher's secret and the student's name.
"""

import hashlib
import os
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

from minivllm.errors import ExerciseError
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.check import check
from minivllm.lessons.checker.child import plug
from minivllm.lessons.checker.child.sandbox import Failure, Submission
from minivllm.lessons.checker.result import BehaviourResult, Result, max_score_of
from minivllm.lessons.checker.search import Counterexample

PATIENCE = 0.5
"""Seconds to shrink a failing case: less than in `check`, because a whole class takes longer."""


MAX_AT_ONCE = 8
"""More threads do not help: this process computes the engine's own lines for all of them."""


class Grade(NamedTuple):
    student: str
    exercise: Exercise
    seed: int
    result: Result | None
    """None if the student has no file for this exercise."""
    max_score: int
    file_hash: str = ""
    """Of the file before it ran; empty without a file."""

    @property
    def score(self) -> int:
        return 0 if self.result is None else self.result.score

    @property
    def status(self) -> str:
        """One of: pass, fail, error. An error means that the file could not be run."""
        if self.result is None or self.result.could_not_run is not None:
            return "error"
        return "pass" if self.result.passed else "fail"


def seed_for(secret: str, student: str, exercise: str) -> int:
    digest = hashlib.sha256(f"{secret}\0{student}\0{exercise}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def is_one_submission(folder: Path, exercises: list[Exercise]) -> bool:
    """Whether the folder has one student's files (as on Gradescope) or a folder per student."""
    return any(_file_in(folder, exercise) is not None for exercise in exercises)


def grade(folder: Path, exercises: list[Exercise], secret: str) -> Iterator[Grade]:
    """Yield all grades. Raises `ExerciseError` if the folder has no students."""
    if not folder.is_dir():
        raise ExerciseError(
            f"{folder} is not a folder: give one that contains a folder for each student."
        )
    if is_one_submission(folder, exercises):
        students = [folder]
    else:
        students = sorted(
            student_folder
            for student_folder in folder.iterdir()
            if student_folder.is_dir() and not student_folder.name.startswith(".")
        )
    if not students:
        raise ExerciseError(
            f"{folder} is empty: give a folder that contains a folder for each student."
        )
    with ThreadPoolExecutor(_num_at_once(exercises)) as pool:
        yield from pool.map(lambda one: grade_one(*one, secret), product(students, exercises))


def _num_at_once(exercises: list[Exercise]) -> int:
    """How many submissions to check at the same time.

    A check is mostly a process that waits for another, so threads are enough. Checks with torch
    take turns: they share its random numbers and the interpreter of Triton, and need much memory.
    """
    if any(map(plug.uses_tensors, exercises)):
        return 1
    return min(os.cpu_count() or 1, MAX_AT_ONCE)


def grade_one(student: Path, exercise: Exercise, secret: str) -> Grade:
    seed = seed_for(secret, student.name, exercise.name)
    file = _file_in(student, exercise)
    most = max_score_of(len(exercise.behaviours()))
    if file is None:
        return Grade(student.name, exercise, seed, None, most)
    file_hash = ""
    try:
        file_hash = "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
        result = check(exercise, Submission(file), seed=seed, patience=PATIENCE)
    except ExerciseError:
        raise
    except Exception as error:  # one file must not cost the others their grades
        result = _not_checked(exercise, file, seed, error)
    return Grade(student.name, exercise, seed, result, most, file_hash)


def _not_checked(exercise: Exercise, file: Path, seed: int, error: Exception) -> Result:
    last = traceback.extract_tb(error.__traceback__)[-1]
    place = f"{Path(last.filename).name}, line {last.lineno}"
    what = (
        "the checker itself failed on it, please report this:"
        f" {type(error).__name__} ({place}): {error}"
    )
    failure = Failure("died", what)
    nothing = Counterexample({}, [], [], 0, failure)
    behaviours = [BehaviourResult(one, nothing) for one in exercise.behaviours()]
    return Result(exercise, file, failure, [], behaviours, [], 0.0, seed)


def _file_in(student: Path, exercise: Exercise) -> Path | None:
    places = [student / exercise.name, student / exercise.package, student]
    files = [place / exercise.student_file for place in places]
    return next((file for file in files if file.is_file()), None)
