"""`minivllm lesson --save-answers` for a student, and `--class-answers` for the teacher.

The histogram has a block for each question: the answers with their counts, the right one first, and
below a wrong one the lesson's sentence on the misconception behind it.
"""

import textwrap
from pathlib import Path

from minivllm.cli.loading import loading
from minivllm.cli.terminal import note
from minivllm.lessons.course.library import find_lesson, lessons
from minivllm.lessons.teacher import class_answers as answers
from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.lesson_player import questions_of
from minivllm.lessons.teacher.progress import Progress
from minivllm.lessons.teacher.prompts import LESSON_MODEL
from minivllm.lessons.teacher.script import AskedQuestion, Lesson
from minivllm.lessons.teacher.words import WIDTH, without_marks
from minivllm.text import clean, fit
from minivllm.tui.draw.portable import to_ascii

BAR = 24
"""Columns of the longest bar."""
LONGEST_ANSWER = 36
"""Columns of an answer."""


def save(file: str) -> int:
    """Write the student's own first answers into `file`."""
    number = answers.save_answers(Progress().read(), Path(file))
    print(f"Wrote {number} first answers into {file}: hand in this file.")
    return 0


def show_class(folder: str, wanted: str | None, *, ascii: bool) -> int:
    """Print a histogram for each question that somebody answered."""
    students = answers.read_class(Path(folder))
    for name, why in students.skipped.items():
        note(f"minivllm: skipped {clean(name)}: {clean(why)}.")
    chosen = [find_lesson(wanted)] if wanted is not None else _answered(students)
    with loading(LESSON_MODEL):
        shelf = ModelShelf()
    for lesson in chosen:
        taken = sum(bool(file.lessons.get(lesson.name)) for file in students.students.values())
        who = f"{taken} of {len(students.students)} students"
        lines = [f"Lesson {lesson.number}, {lesson.title}: {who}"]
        for question in questions_of(lesson, shelf) if taken else ():
            if counts := answers.first_answers(students, lesson.name, question):
                lines += ["", *_histogram(question, counts)]
        for line in [*lines, ""]:
            print(to_ascii(line) if ascii else line)
    return 0


def _answered(students: answers.ClassAnswers) -> list[Lesson]:
    names = {name for file in students.students.values() for name in file.lessons}
    for name in sorted(names - {lesson.name for lesson in lessons()}):
        note(f"minivllm: no lesson is called {clean(name)!r} here; its answers are not shown.")
    return [lesson for lesson in lessons() if lesson.name in names]


def _histogram(question: AskedQuestion, counts: list[answers.AnswerCount]) -> list[str]:
    if not any(count.right for count in counts):
        counts = [answers.AnswerCount(str(question.truth), True, 0), *counts]
    most = max(count.students for count in counts)
    width = min(LONGEST_ANSWER, max(len(count.given) for count in counts))
    text = without_marks(f"{question.number}. {question.asked.question}")
    lines = textwrap.wrap(text, WIDTH, subsequent_indent="   ")
    for count in counts:
        answer = fit(clean(count.given), width)
        bar = "█" * round(count.students / most * BAR)
        lines.append(f"   {'✓' if count.right else ' '} {answer}  {bar:<{BAR}} {count.students:>3}")
        if not count.right and (why := question.correction_of(count.given)):
            indent = " " * (width + 7)
            lines += textwrap.wrap(
                without_marks(why), WIDTH, initial_indent=indent, subsequent_indent=indent
            )
    return lines
