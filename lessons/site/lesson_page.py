"""The lesson of a topic page: its text, its questions with folded answers, and pictures.

It is written while the lesson is played as with `--auto`. The answer, the comments on wrong
guesses and the picture are folded under the question, so that a reader who scrolls does not see
them.
"""

from collections.abc import Callable
from typing import NamedTuple

from minivllm.errors import LessonError
from minivllm.lessons.site.diagrams import to_image
from minivllm.lessons.site.markdown import attribute, boxed, to_markdown
from minivllm.lessons.site.picks import PICKS
from minivllm.lessons.site.pictures import draw, picture_words
from minivllm.lessons.site.plays import Plays
from minivllm.lessons.teacher.lesson_engine import ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.script import Answer, Lesson, Predict
from minivllm.lessons.teacher.words import page_picture
from minivllm.tui.lesson import Page

PICTURES = "../assets/lessons"

Draw = Callable[[Page, str], str]


class PlayedLesson(NamedTuple):
    text: str
    pictures: dict[str, str]
    recordings: dict[str, str]


def played_lesson(lesson: Lesson, *, draw: Draw = draw) -> PlayedLesson:
    """Play the lesson and write it down.

    Raises `LessonError` if a page that `picks` selects shows nothing new.
    """
    player = LessonPlayer(lesson, ModelShelf())
    try:
        writer = _Writer(lesson, player, draw)
        writer.write()
    finally:
        player.close()
    return PlayedLesson("\n".join(writer.parts), writer.pictures, writer.plays.recordings())


class _Writer:
    def __init__(self, lesson: Lesson, player: LessonPlayer, draw: Draw) -> None:
        self.parts: list[str] = []
        self.pictures: dict[str, str] = {}
        self.plays = Plays(lesson)
        self._lesson = lesson
        self._player = player
        self._draw = draw
        self._engine: str | None = None
        self._last_rows: list[str] = []
        self._has_folded_claims = False

    def write(self) -> None:
        """Play the lesson and write all its pages, except the final page with the score."""
        player = self._player
        while not player.over:
            page = player.page
            # A page's claims were checked before the page, so they belong to the last section. After
            # a question they give its answer away, so they are folded with it.
            if not self._has_folded_claims:
                self.parts += _claims(page)
            self._has_folded_claims = False
            self._begin_section(page)
            if page.asks:
                self.parts.append(self._question(page))
            else:
                self.parts += [f"{to_markdown(page.text)}\n", *_figure(page), *self._picture(page)]
                player.pass_over()
        undrawn = [
            number
            for number in PICKS[self._lesson.name].drawn
            if self._file(number) not in self.pictures
        ]
        if undrawn:
            raise LessonError(
                f"Lesson {self._lesson.name} has nothing to draw on page {undrawn[0]}: see"
                " site/picks.py."
            )

    def _begin_section(self, page: Page) -> None:
        if page.engine != self._engine:
            self._engine = page.engine
            title = page.engine or "the lesson"
            heading = f"## {title[:1].upper()}{title[1:]}"
            again = ", again" if f"{heading}\n" in self.parts else ""
            self.parts.append(f"{heading}{again}\n")

    def _question(self, page: Page) -> str:
        """The question. The next page, with the engine's answer, is folded under it."""
        question = self._player.question
        choices = "".join(
            f"\n{number}. {to_markdown(choice)}" for number, choice in enumerate(page.choices, 1)
        )
        self._player.pass_over()
        answer = self._player.page
        # An engine that first appears in the answer starts no section, because it is folded.
        self._engine = answer.engine
        answered = [
            *_claims(answer),
            f"{to_markdown(answer.text)}\n",
            *_misconceptions(question, self._player.truths[-1]),
        ]
        answered += self._picture(answer)
        if not self._player.over:
            self._player.forward()
        if not self._player.over:
            answered += _claims(self._player.page)
            self._has_folded_claims = True
        fold = boxed("success", "The engine’s answer", "\n".join(answered), folded=True)
        asked = (
            f"{to_markdown(page.text)}\n{choices}\n" if choices else f"{to_markdown(page.text)}\n"
        )
        return boxed("question", "What do you expect?", f"{asked}\n{fold}")

    def _picture(self, page: Page) -> list[str]:
        """The picture of a page, if the page is selected and its picture is a new one."""
        if page.number not in PICKS[self._lesson.name].drawn:
            return []
        rows = [page.engine, str(page.focus), *page_picture(page)]
        if rows == self._last_rows or len(rows) == 2:
            return []
        self._last_rows = rows
        file = self._file(page.number)
        self.pictures[file] = self._draw(page, f"minivllm lesson {self._lesson.number}")
        words = picture_words(page)
        shown = f"{PICTURES}/{file}"
        # Link the picture to itself, so that it can be enlarged on a phone.
        still = f"[![{attribute(words.alt)}]({shown}){{ loading=lazy }}]({shown})\n"
        player = self.plays.embed(page, self._player.engine, still)
        caption = words.caption if player is None else f"{words.moment}. Step through it."
        return [player or still, f"{attribute(caption)}\n{{ .caption }}\n"]

    def _file(self, number: int) -> str:
        return f"{self._lesson.number:02}-{self._lesson.name}-{number:02}.svg"


def _figure(page: Page) -> list[str]:
    if page.diagram:
        return [to_image(page.diagram)]
    return ["\n".join(["```text", *page.figure, "```", ""])] if page.figure else []


def _claims(page: Page) -> list[str]:
    if not page.claims:
        return []
    return [
        "Checked on the engine when this page was built:\n",
        "".join(f"- {to_markdown(claim)}\n" for claim in page.claims),
    ]


def _misconceptions(question: Predict, truth: Answer) -> list[str]:
    wrong = [
        (given, why) for given, why in question.why.items() if not question.is_right(given, truth)
    ]
    lines = [
        f"- **{to_markdown(question.shown(given))}**: {to_markdown(why)}" for given, why in wrong
    ]
    if question.otherwise:
        other = "another answer" if question.choices else "another number"
        lines.append(f"- **{other}**: {to_markdown(question.otherwise)}")
    return ["If you expected\n", "\n".join(lines) + "\n"] if lines else []
