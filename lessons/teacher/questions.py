"""All questions of a lesson with the engine's answers, collected by playing the lesson.

Question texts, answers and the sentences about wrong answers take numbers from the engine, so only
a lesson that runs has them. A number `3` is the key `3` of `LessonProgress.first_answers`.
"""

from typing import NamedTuple

from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.script import Answer, Lesson, Predict


class AskedQuestion(NamedTuple):
    number: int
    """Position among the lesson's questions, from 1."""
    asked: Predict
    truth: Answer
    """What the engine answered on this machine."""

    @property
    def right_answer(self) -> str:
        return self.asked.shown(self.truth)

    @property
    def wrong_answers(self) -> list[tuple[str, str]]:
        """Each expected wrong answer, with the sentence that corrects it."""
        return [
            (self.asked.shown(given), why)
            for given, why in self.asked.why.items()
            if not self.asked.is_right(given, self.truth)
        ]

    def correction_of(self, given: str) -> str:
        """The lesson's sentence about this wrong answer; empty if it has none."""
        answer = self.asked.read(given)
        return self.asked.why.get(answer, self.asked.otherwise) if answer is not None else ""


def questions_of(lesson: Lesson, shelf: ModelShelf) -> list[AskedQuestion]:
    """Play the lesson without answers, and return its questions. This takes seconds."""
    player, questions = LessonPlayer(lesson, shelf), []
    try:
        while not player.over:
            asked = player.question
            player.pass_over()
            if asked is not None:
                truth = player.truths[-1]
                questions.append(AskedQuestion(len(questions) + 1, asked, truth))
    finally:
        player.close()
    return questions
