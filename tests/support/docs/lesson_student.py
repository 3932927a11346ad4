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
from minivllm.lessons.teacher.script import Answer, Lesson, Predict

SILLY = ("", "perhaps", "nan", "-1e999", "¯\\_(ツ)_/¯")
NONSENSE = -7
"""A number that is never an answer."""


@dataclass
class Taken:
    """What the student saw of a lesson."""

    first_page: str
    truths: list[Answer]
    num_refused: int
    """Invalid inputs that were refused with a sentence."""
    num_wrong: int
    verdicts: list[str]
    recorded: list[str | None]
    """One item per kernel trace: None if the kernel ran here."""
    end: str


def take(lesson: Lesson, shelf: ModelShelf) -> Taken:
    """Play a lesson to its end, with one invalid input and one wrong answer per question."""
    player = LessonPlayer(lesson, shelf)
    refused, recorded = 0, {}
    while not player.over:
        if player.question is None:
            player.forward()
        else:
            question, silly = player.question, SILLY[len(player.truths) % len(SILLY)]
            refused += bool(player.answer(silly)) and player.page.waits
            player.answer(_wrong(question, lesson, shelf, len(player.truths)))
        if player.engine is not None:
            recorded |= {
                id(one): one.recorded for one in player.engine.events if hasattr(one, "programs")
            }
    right, answered = player.score
    verdicts = [page.text for page in player.pages if page.right is not None]
    taken = Taken(
        player.pages[0].text, player.truths, refused, answered - right, verdicts,
        list(recorded.values()), player.page.text
    )  # fmt: skip
    player.close()
    return taken


def _wrong(question: Predict, lesson: Lesson, shelf: ModelShelf, number: int) -> str:
    """Return a wrong answer, if possible one that has its own `why`.

    For a question with choices, play a second copy of the lesson to find the right answer.
    """
    if not question.choices:
        return str(NONSENSE)
    ahead = LessonPlayer(lesson, shelf)
    while len(ahead.truths) <= number:
        ahead.pass_over()
    ahead.close()
    return next(choice for choice in question.choices if choice != ahead.truths[number])


if __name__ == "__main__":
    shelf = ModelShelf()
    print(json.dumps({lesson.number: asdict(take(lesson, shelf)) for lesson in lessons()}))
    print("triton" in sys.modules, file=sys.stderr)
