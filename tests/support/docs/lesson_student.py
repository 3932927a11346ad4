"""Takes whole lessons and answers every question wrong.

Run as a program, it takes the whole course and prints JSON:

    python tests/support/docs/lesson_student.py
"""

import json
import sys
from dataclasses import asdict, dataclass

from minivllm.lessons.course.library import lessons
from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.script import Answer, Lesson

SILLY = ("", "perhaps", "nan", "-1e999", "¯\\_(ツ)_/¯")


@dataclass
class Taken:
    """What the student saw of a lesson."""

    first_page: str
    truths: list[Answer]
    num_refused: int  # Invalid inputs that were refused with a sentence.
    num_wrong: int
    recorded: list[str | None]  # One item per kernel trace: None if the kernel ran here.
    end: str


def take(lesson: Lesson, shelf: ModelShelf) -> Taken:
    """Play a lesson to its end, with one invalid input and one wrong answer per question."""
    player = LessonPlayer(lesson, shelf)
    refused, recorded = 0, {}
    while not player.over:
        if player.question is None:
            player.forward()
        else:
            number, choices = len(player.questions), player.question.choices
            refused += bool(player.answer(SILLY[number % len(SILLY)])) and player.page.waits
            right = _answer(lesson, shelf, number) if choices else None
            player.answer(next((choice for choice in choices or () if choice != right), "-7"))
        events = player.engine.events if player.engine is not None else ()
        recorded |= {id(event): event.recorded for event in events if hasattr(event, "programs")}
    right, answered = player.score
    taken = Taken(
        player.pages[0].text, [asked.truth for asked in player.questions], refused, answered - right, list(recorded.values()),
        player.page.text,
    )  # fmt: skip
    player.close()
    return taken


def _answer(lesson: Lesson, shelf: ModelShelf, number: int) -> Answer:
    """The answer of a question, which a second copy of the lesson gives."""
    ahead = LessonPlayer(lesson, shelf)
    while len(ahead.questions) <= number:
        ahead.pass_over()
    ahead.close()
    return ahead.questions[number].truth


if __name__ == "__main__":
    shelf = ModelShelf()
    print(json.dumps({lesson.number: asdict(take(lesson, shelf)) for lesson in lessons()}))
    print("triton" in sys.modules, file=sys.stderr)
