"""`minivllm exercise grade`, for teachers, and `report`, which shows the user's own progress.

Other users of a machine can see command lines, so the secret can also be an environment variable.
"""

import argparse
import json
import os
import time
from itertools import groupby
from pathlib import Path

from minivllm.cli import Parser
from minivllm.cli.terminal import note, print_json
from minivllm.errors import ExerciseError
from minivllm.events.recording.whole_file import write_whole
from minivllm.lessons.checker import grade as grading
from minivllm.lessons.checker.catalogue import exercises, find_exercise
from minivllm.lessons.teacher.progress import ExerciseProgress, Progress
from minivllm.text import clean, plural

SECRET = "MINIVLLM_GRADE_SECRET"


def add_grade_options(parser: Parser) -> None:
    where = "a folder that contains one folder per student, or the folder of one student"
    parser.add("--submissions DIR", where, required=True, type=Path)
    parser.add("--csv FILE", "write the results as a table", type=Path)
    parser.add("--json PATH", "Gradescope's results: a file (one student) or a folder", type=Path)
    secret = f"a secret that makes the random cases unpredictable (default: ${SECRET})"
    parser.add("--secret SECRET", secret)


def grade_all(args: argparse.Namespace) -> int:
    """Grade all submissions; return 0 if all pass, else 1."""
    chosen = [find_exercise(name) for name in args.name] or list(exercises())
    for exercise in chosen:
        if exercise.obstacle:
            note(f"minivllm: {exercise.obstacle} The exercise is not graded.")
    chosen = [exercise for exercise in chosen if not exercise.obstacle]
    alone = grading.is_one_submission(args.submissions, chosen)
    _make_room_for(args, alone)
    grades, began, secret = [], time.monotonic(), args.secret or os.environ.get(SECRET, "")
    for grade in grading.grade(args.submissions, chosen, secret):
        grades.append(grade)
        result = grade.result
        score = f"{result.score:>3} of {result.max_score:<3} {grade.status}"
        note(f"{clean(grade.student):<24} {result.exercise.name:<24} {score}")
    grades.sort(key=lambda grade: grade.student)
    if args.csv is not None:
        grading.write_csv(grades, args.csv)
    if args.json is not None:
        for student, own in groupby(grades, key=lambda grade: grade.student):
            path = args.json if alone else args.json / f"{student}.json"
            write_whole(path, json.dumps(grading.as_gradescope(list(own)), indent=1))
    num_passed = sum(grade.status == "pass" for grade in grades)
    students = {grade.student for grade in grades}
    what = f"{plural(len(students), 'student')} in {plural(len(chosen), 'exercise')}"
    passed = f"{num_passed} of {len(grades)} passed, in {time.monotonic() - began:.0f} s"
    note(f"Graded {what}: {passed}.")
    return 0 if num_passed == len(grades) else 1


def _make_room_for(args: argparse.Namespace, alone: bool) -> None:
    """Raise `ExerciseError` if the results cannot be written. Call this before grading."""
    folder = None if alone else args.json
    try:
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
        for path in {args.csv, args.json} - {None, folder}:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.open("ab").close()
    except OSError as error:
        raise ExerciseError(
            f"{error.filename}: {error.strerror}: name another place for the results."
        ) from error


def report_progress(args: argparse.Namespace) -> int:
    done, rows = Progress().read().exercises, []
    for name in (exercise.name for exercise in exercises()):
        progress = done.get(name, ExerciseProgress())
        passed, checks, hints = progress.passed, progress.checks, progress.hints
        rows.append({"exercise": name, "passed": passed, "checks": checks, "hints": hints})
        if not args.json:
            state = "passed" if passed else "not passed" if name in done else "not begun"
            print(f"{name:<24} {state:<11} {plural(checks, 'check'):<10} {plural(hints, 'hint')}")
    if args.json:
        print_json(rows)
    return 0
