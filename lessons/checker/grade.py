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
from minivllm.lessons.checker.child.plug import uses_tensors
from minivllm.lessons.checker.result import Failure, Result, result_without_cases

PATIENCE = 0.5
"""Seconds to shrink a failing case: less than in `check`, because a whole class takes longer."""
MAX_AT_ONCE = 8
"""More threads do not help: this process computes the engine's own lines for all of them."""


class Grade(NamedTuple):
    student: str
    result: Result
    file_hash: str
    """Of the file before it ran; empty without a file."""

    @property
    def status(self) -> str:
        """One of: pass, fail, error. An error means that the file could not be run."""
        return ("pass", "fail", "error")[self.result.exit_status]


def seed_for(secret: str, student: str, exercise: str) -> int:
    digest = hashlib.sha256(f"{secret}\0{student}\0{exercise}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def is_one_submission(folder: Path, exercises: list[Exercise]) -> bool:
    """Whether the folder has one student's files (as on Gradescope) or a folder per student."""
    return any(_file_in(folder, exercise).is_file() for exercise in exercises)


def grade(folder: Path, exercises: list[Exercise], secret: str) -> Iterator[Grade]:
    """Yield all grades. Raises `ExerciseError` if the folder has no students."""
    if not folder.is_dir():
        raise ExerciseError(
            f"{folder} is not a folder: give one that contains a folder for each student."
        )
    students = [folder]
    if not is_one_submission(folder, exercises):
        inside = (one for one in folder.iterdir() if one.is_dir())
        students = sorted(one for one in inside if not one.name.startswith("."))
    if not students:
        raise ExerciseError(
            f"{folder} is empty: give a folder that contains a folder for each student."
        )
    # A check is mostly a process that waits for another, so threads are enough. Checks with torch
    # take turns: they share its random numbers and the interpreter of Triton, and need much memory.
    at_once = 1 if any(map(uses_tensors, exercises)) else min(os.cpu_count() or 1, MAX_AT_ONCE)
    with ThreadPoolExecutor(at_once) as pool:
        yield from pool.map(lambda one: grade_one(*one, secret), product(students, exercises))


def grade_one(student: Path, exercise: Exercise, secret: str) -> Grade:
    seed, file = seed_for(secret, student.name, exercise.name), _file_in(student, exercise)
    file_hash = ""
    try:
        if file.is_file():
            file_hash = "sha256:" + hashlib.sha256(file.read_bytes()).hexdigest()
            result = check(exercise, file, seed=seed, patience=PATIENCE)
        else:
            missing = Failure("died", f"there is no {exercise.student_file}")
            result = result_without_cases(exercise, file, missing, 0.0, seed)
    except ExerciseError:
        raise
    except Exception as error:  # one file must not cost the others their grades
        last = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__} ({Path(last.filename).name}, line {last.lineno}): {error}"
        ours = Failure("died", f"the checker itself failed on it, please report this: {what}")
        result = result_without_cases(exercise, file, ours, 0.0, seed)
    return Grade(student.name, result, file_hash)


def _file_in(student: Path, exercise: Exercise) -> Path:
    places = [student / exercise.name, student / exercise.package, student]
    files = [place / exercise.student_file for place in places]
    return next((file for file in files if file.is_file()), files[-1])
