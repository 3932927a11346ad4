"""Writes grades as Gradescope's results.json, which is plain JSON, and as a CSV table.

The engine's own output is left out; otherwise students could memorize the right results.
"""

import csv
from io import TextIOWrapper
from pathlib import Path
from typing import Any

from minivllm import __version__
from minivllm.events.recording.whole_file import whole_file
from minivllm.lessons.checker.grade import Grade
from minivllm.lessons.checker.report import VISIBLE, hint_for, not_loaded, yours_at
from minivllm.lessons.checker.result import BehaviourResult, Result
from minivllm.text import clean

SCHEMA = "minivllm.grade/2"


def as_gradescope(grades: list[Grade]) -> dict[str, Any]:
    """One student's results.json. https://gradescope-autograders.readthedocs.io/en/latest/specs/"""
    return {
        "score": sum(grade.score for grade in grades),
        "max_score": sum(grade.max_score for grade in grades),
        "execution_time": round(
            sum(grade.result.seconds for grade in grades if grade.result is not None), 2
        ),
        "visibility": "visible",
        "stdout_visibility": "hidden",
        "output": "\n".join(_summary(grade) for grade in grades),
        "tests": [test for grade in grades for test in _tests(grade)],
        "extra_data": {
            "schema": SCHEMA,
            "engine": __version__,
            "exercises": {
                grade.exercise.name: {
                    "status": grade.status,
                    "seed": grade.seed,
                    "student_hash": grade.file_hash,
                }
                for grade in grades
            },
        },
    }


def _summary(grade: Grade) -> str:
    text = f"{grade.exercise.name}: {grade.score} of {grade.max_score}"
    if trouble := _trouble(grade):
        return f"{text}; {trouble}"
    failed = grade.result.first_failure
    return text if failed is None else f"{text}; first failing behaviour: {failed.behaviour.name}"


def _trouble(grade: Grade) -> str:
    if grade.result is None:
        return f"there is no {grade.exercise.student_file}"
    if grade.result.could_not_run is not None:
        return f"it could not be loaded: {not_loaded(grade.result.could_not_run)}"
    return ""


def _tests(grade: Grade) -> list[dict[str, Any]]:
    if grade.result is None:
        return []
    first = grade.result.first_failure
    tests = [
        {
            "number": f"{one.behaviour.task}.{number}",
            "name": f"{grade.exercise.name}: {one.behaviour.name}",
            "status": "passed" if one.passed else "failed",
            "score": int(one.passed),
            "max_score": 1,
            "output": "" if one.passed else _message(grade.result, one),
            "tags": [f"task:{one.behaviour.task}", "behaviour"],
            "visibility": "visible",
            "extra_data": {
                "misconception": _misconception(grade.result) if one is first else None,
                "repro": f"{grade.exercise.name}/seed={grade.seed}",
            },
        }
        for number, one in enumerate(grade.result.behaviours, 1)
    ]
    seen = {
        "number": "0",
        "name": f"{grade.exercise.name}: {VISIBLE}",
        "status": "passed" if grade.result.visible_score else "failed",
        "score": grade.result.visible_score,
        "max_score": 1,
        "output": _visible_message(grade.result),
        "tags": ["visible"],
        "visibility": "visible",
        "extra_data": {"misconception": None, "repro": f"{grade.exercise.name}/seed={grade.seed}"},
    }
    return [*tests, seen]


def _visible_message(result: Result) -> str:
    if result.could_not_run is not None:
        return f"The file could not be loaded: {not_loaded(result.could_not_run)}"
    return "\n".join(map(clean, result.visible))


def _misconception(result: Result) -> str | None:
    return None if result.misconception is None else result.misconception.name


def _message(result: Result, one: BehaviourResult) -> str:
    if result.could_not_run is not None:
        return f"The file could not be loaded: {not_loaded(result.could_not_run)}"
    did = (
        f"At line {one.counterexample.index + 1} of the smallest case yours does:"
        f" {clean(yours_at(one.counterexample))}"
    )
    hint = hint_for(result, one)
    return did if hint is None else f"{did}\nHint: {hint}"


_COLUMNS = (
    "student", "exercise", "score", "max_score", "status", "first_failure", "misconception",
    "seconds", "seed", "student_hash",
)  # fmt: skip


def write_csv(grades: list[Grade], path: Path) -> None:
    with whole_file(path) as file, TextIOWrapper(file, encoding="utf-8", newline="") as text:
        table = csv.writer(text)
        table.writerow(_COLUMNS)
        for grade in grades:
            result = grade.result
            failed = None if grade.status == "error" else result.first_failure
            table.writerow(
                [
                    _cell(grade.student),
                    grade.exercise.name,
                    grade.score,
                    grade.max_score,
                    grade.status,
                    _trouble(grade) if failed is None else failed.behaviour.name,
                    "" if result is None else _misconception(result) or "",
                    "" if result is None else f"{result.seconds:.2f}",
                    grade.seed,
                    grade.file_hash,
                ]
            )


def _cell(text: str) -> str:
    """Escape text that a spreadsheet would run as a formula."""
    text = clean(text)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
