"""Grades a folder of submissions, in the formats of course software.

The folder `DIR/STUDENT/` has a student's files, with or without a folder per exercise. Each student
gets different cases, because the seed depends on the teacher's secret and the student's name.
"""

import csv
import hashlib
import os
import traceback
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from io import StringIO
from pathlib import Path
from typing import Any, NamedTuple

from minivllm import __version__
from minivllm.errors import ExerciseError
from minivllm.events.recording.whole_file import write_whole
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.check import check
from minivllm.lessons.checker.child import imports
from minivllm.lessons.checker.child.session import Worker
from minivllm.lessons.checker.report import hint_for, not_loaded, yours_at
from minivllm.lessons.checker.result import BehaviourResult, Failure, Result, result_without_cases
from minivllm.text import clean

SCHEMA = "minivllm.grade/4"
PATIENCE = 0.5
"""Seconds to shrink a failing case: less than in `check`, because a whole class takes longer."""
MAX_AT_ONCE = 8
"""More threads do not help: this process computes the engine's own lines for all of them."""


class Grade(NamedTuple):
    student: str
    result: Result

    @property
    def status(self) -> str:
        return ("pass", "fail", "error")[self.result.exit_status]


def seed_for(secret: str, student: str, exercise: str) -> int:
    digest = hashlib.sha256(f"{secret}\0{student}\0{exercise}".encode()).digest()
    return int.from_bytes(digest[:4], "big")


def is_one_submission(folder: Path, exercises: list[Exercise]) -> bool:
    """Whether the folder has the files of one student, as on Gradescope."""
    return any(_file_in(folder, exercise).is_file() for exercise in exercises)


def grade(folder: Path, exercises: list[Exercise], secret: str) -> Iterator[Grade]:
    """Yield all grades. Raises `ExerciseError` if the folder has no students."""
    alone = is_one_submission(folder, exercises)
    students = [folder] if alone else sorted(folder.glob("[!.]*/"))
    if not students:
        expected = "give a folder that contains one for each student"
        raise ExerciseError(f"{folder} is empty, or no folder: {expected}.")
    for exercise in exercises:
        yield from _grade_all(students, exercise, secret)


def _grade_all(students: list[Path], exercise: Exercise, secret: str) -> Iterator[Grade]:
    # A check is mostly a process that waits for another, so threads are enough. Checks with torch
    # take turns: they share its random numbers and the interpreter of Triton, and need much memory.
    most = 1 if imports.uses_tensors(exercise) else min(os.cpu_count() or 1, MAX_AT_ONCE)
    with ExitStack() as stack, ThreadPoolExecutor(most) as pool:
        alone = exercise.finds_bug  # such an answer is not run
        idle = [None if alone else stack.enter_context(Worker(exercise)) for _ in range(most)]
        yield from pool.map(lambda student: grade_one(student, exercise, secret, idle), students)


def grade_one(student: Path, exercise: Exercise, secret: str, idle: list[Worker | None]) -> Grade:
    seed, file = seed_for(secret, student.name, exercise.name), _file_in(student, exercise)
    what = f"there is no {exercise.student_file}"
    if file.is_file():
        worker = idle.pop()
        try:
            result = check(exercise, file, seed=seed, patience=PATIENCE, worker=worker)
            return Grade(student.name, result)
        except Exception as error:  # one file must not cost the others their grades
            last = traceback.extract_tb(error.__traceback__)[-1]
            place = f"{Path(last.filename).name}, line {last.lineno}"
            what = f"please report this fault of ours: {type(error).__name__} ({place}): {error}"
        finally:
            idle.append(worker)
    return Grade(student.name, result_without_cases(exercise, file, Failure("died", what), seed))


def _file_in(student: Path, exercise: Exercise) -> Path:
    places = [student / exercise.name, student / exercise.package, student]
    files = [place / exercise.student_file for place in places]
    return next((file for file in files if file.is_file()), files[-1])


# ---- the formats ----


def as_row(grade: Grade) -> dict[str, Any]:
    """A grade in one exercise, as a row of the table; `extra_data` of results.json has it, too."""
    result, first, believed = grade.result, grade.result.first_failure, grade.result.misconception
    failed = "" if first is None else first.behaviour.name
    if result.could_not_run is not None:
        failed = not_loaded(result.could_not_run)
    return {
        "student": grade.student,
        "exercise": result.exercise.name,
        "score": result.score,
        "max_score": result.max_score,
        "status": grade.status,
        "first_failure": failed,
        "misconception": "" if believed is None else believed.name,
        "seconds": round(result.seconds, 2),
        "seed": result.seed,
    }


def as_gradescope(grades: list[Grade]) -> dict[str, Any]:
    """One student's results.json. https://gradescope-autograders.readthedocs.io/en/latest/specs/"""
    rows = [as_row(grade) for grade in grades]
    tests = [
        {
            "name": f"{grade.result.exercise.name}: {outcome.behaviour.name}",
            "status": "passed" if outcome.passed else "failed",
            "score": int(outcome.passed),
            "max_score": 1,
            "output": "" if outcome.passed else _message(grade.result, outcome),
        }
        for grade in grades
        for outcome in grade.result.behaviours
    ]
    by_exercise = {row["exercise"]: row for row in rows}
    return {
        **{name: sum(row[name] for row in rows) for name in ("score", "max_score")},
        "execution_time": round(sum(row["seconds"] for row in rows), 2),
        "tests": tests,
        "extra_data": {"schema": SCHEMA, "engine": __version__, "exercises": by_exercise},
    }


def _message(result: Result, outcome: BehaviourResult) -> str:
    if result.could_not_run is not None:
        return f"The file could not be run: {not_loaded(result.could_not_run)}"
    found, hint = outcome.counterexample, hint_for(result, outcome)
    did = f"At line {found.index + 1} of the smallest case yours does: {yours_at(found)}"
    return did if hint is None else f"{did}\nHint: {hint}"


def write_csv(grades: list[Grade], path: Path) -> None:
    rows, text = [as_row(grade) for grade in grades], StringIO()
    table = csv.DictWriter(text, list(rows[0]))
    table.writeheader()
    table.writerows({**row, "student": _cell(row["student"])} for row in rows)
    write_whole(path, text.getvalue())


def _cell(text: str) -> str:
    """Escape text that a spreadsheet would run as a formula."""
    text = clean(text)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
