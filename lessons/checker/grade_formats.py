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
from minivllm.lessons.checker.report import hint_for, not_loaded, yours_at
from minivllm.lessons.checker.result import BehaviourResult, Result
from minivllm.text import clean

SCHEMA = "minivllm.grade/3"


def as_row(grade: Grade) -> dict[str, Any]:
    """A grade in one exercise, as a row of the table; `extra_data` of results.json has it, too."""
    result, first, believed = grade.result, grade.result.first_failure, grade.result.misconception
    if result.could_not_run is not None:
        failed = not_loaded(result.could_not_run)
    else:
        failed = "" if first is None else first.behaviour.name
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
        "student_hash": grade.file_hash,
    }


def as_gradescope(grades: list[Grade]) -> dict[str, Any]:
    """One student's results.json. https://gradescope-autograders.readthedocs.io/en/latest/specs/"""
    rows = [as_row(grade) for grade in grades]
    return {
        "score": sum(row["score"] for row in rows),
        "max_score": sum(row["max_score"] for row in rows),
        "execution_time": round(sum(row["seconds"] for row in rows), 2),
        "output": "\n".join(
            f"{row['exercise']}: {row['score']} of {row['max_score']} {row['first_failure']}".strip()
            for row in rows
        ),
        "tests": [
            {
                "name": f"{grade.result.exercise.name}: {one.behaviour.name}",
                "status": "passed" if one.passed else "failed",
                "score": int(one.passed),
                "max_score": 1,
                "output": "" if one.passed else _message(grade.result, one),
            }
            for grade in grades
            for one in grade.result.behaviours
        ],
        "extra_data": {
            "schema": SCHEMA,
            "engine": __version__,
            "exercises": {row["exercise"]: row for row in rows},
        },
    }


def _message(result: Result, one: BehaviourResult) -> str:
    if result.could_not_run is not None:
        return f"The file could not be run: {not_loaded(result.could_not_run)}"
    found = one.counterexample
    did = f"At line {found.index + 1} of the smallest case yours does: {yours_at(found)}"
    hint = hint_for(result, one)
    return did if hint is None else f"{did}\nHint: {hint}"


def write_csv(grades: list[Grade], path: Path) -> None:
    rows = [as_row(grade) for grade in grades]
    with whole_file(path) as file, TextIOWrapper(file, encoding="utf-8", newline="") as text:
        table = csv.DictWriter(text, list(rows[0]))
        table.writeheader()
        for row in rows:
            table.writerow({**row, "student": _cell(row["student"])})


def _cell(text: str) -> str:
    """Escape text that a spreadsheet would run as a formula."""
    text = clean(text)
    return f"'{text}" if text[:1] in ("=", "+", "-", "@") else text
