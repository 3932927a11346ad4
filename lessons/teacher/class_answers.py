"""First answers of a class: a student writes one file, and the teacher reads a folder of them.

No server is needed: a file reaches the teacher like any homework. It has first answers and nothing
else. The student's name is the file's name, or that of its folder if course software makes one for
each student. A file that cannot be read is skipped, and the others still count.
"""

from collections import Counter
from pathlib import Path
from typing import Literal, NamedTuple

import msgspec

from minivllm.errors import LessonError
from minivllm.events.recording.whole_file import write_whole
from minivllm.lessons.teacher.progress import FirstAnswer, ProgressFile
from minivllm.lessons.teacher.script import AskedQuestion


class AnswerFile(msgspec.Struct, forbid_unknown_fields=True):
    schema: Literal["minivllm.answers/1"]
    lessons: dict[str, dict[str, FirstAnswer]]
    """Name of a lesson -> number of a question -> the student's first answer."""


class ClassAnswers(NamedTuple):
    students: dict[str, AnswerFile]
    """By path of the file in the folder."""
    skipped: dict[str, str]
    """Path of a file -> why it does not count."""


class AnswerCount(NamedTuple):
    given: str
    right: bool
    students: int


def save_answers(progress: ProgressFile, path: Path) -> int:
    """Write all first answers into one file; return their number. Raises `LessonError`."""
    lessons = {
        name: entry.first_answers for name, entry in progress.lessons.items() if entry.first_answers
    }
    if not lessons:
        raise LessonError(
            "There are no answers yet: take a lesson first, for example `minivllm lesson 1`."
        )
    file = AnswerFile("minivllm.answers/1", lessons)
    try:
        write_whole(path, msgspec.json.format(msgspec.json.encode(file)) + b"\n")
    except OSError as error:
        raise LessonError(f"{path} cannot be written: {error.strerror}.") from error
    return sum(map(len, lessons.values()))


def read_class(folder: Path) -> ClassAnswers:
    """Read all `.json` files in and below `folder`. Raises `LessonError` if none can be read."""
    if not folder.is_dir():
        raise LessonError(f"{folder} is not a folder: give one with a file for each student.")
    students: dict[str, AnswerFile] = {}
    skipped: dict[str, str] = {}
    for path in sorted(folder.rglob("*.json")):
        name = str(path.relative_to(folder))
        try:
            students[name] = msgspec.json.decode(path.read_bytes(), type=AnswerFile)
        except (OSError, ValueError, RecursionError) as error:
            skipped[name] = str(getattr(error, "strerror", None) or error)
    if not students:
        raise LessonError(
            f"{folder} has no answers ({len(skipped)} of its files cannot be read): collect what"
            " students write with `minivllm lesson --save-answers FILE`."
        )
    return ClassAnswers(students, skipped)


def first_answers(
    students: ClassAnswers, lesson: str, question: AskedQuestion
) -> list[AnswerCount]:
    """Count equal answers to one question: right ones first, then the most frequent ones."""
    given = [
        file.lessons.get(lesson, {}).get(str(question.number))
        for file in students.students.values()
    ]
    counts = Counter((answer.given, answer.right) for answer in given if answer is not None)
    ordered = sorted(counts.items(), key=lambda item: (not item[0][1], -item[1], item[0][0]))
    return [AnswerCount(*answer, number) for answer, number in ordered]
