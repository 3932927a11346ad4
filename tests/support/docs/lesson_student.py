"""A student who takes whole lessons and gets every question wrong; run as a program, all of the
course, told as JSON.

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
"""A number that is no answer anywhere."""


@dataclass
class Taken:
    """A lesson, as the student met it."""

    first_page: str
    truths: list[Answer]
    num_refused: int
    """Silly inputs that were answered by a sentence."""
    num_wrong: int
    verdicts: list[str]
    recorded: list[str | None]
    """Of each kernel trace: None if the kernel ran here."""
    end: str


def take(lesson: Lesson, shelf: ModelShelf) -> Taken:
    """From the first page to the last: one silly input and one wrong answer to each question."""
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
    """One that `why` knows, if it is surely wrong; a question with choices is asked of a lesson
    that went before.
    """
    if not question.choices:
        return str(NONSENSE)
    ahead = LessonPlayer(lesson, shelf)
    while len(ahead.truths) <= number:
        ahead.pass_over()
    ahead.close()
    return next(choice for choice in question.choices if choice != ahead.truths[number])


if __name__ == "__main__":
    tiny = ModelShelf("tiny-random")
    print(json.dumps({lesson.number: asdict(take(lesson, tiny)) for lesson in lessons()}))
    print("triton" in sys.modules, file=sys.stderr)
