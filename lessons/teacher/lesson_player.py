"""`LessonPlayer`: runs one lesson page by page, and keeps the earlier pages.

`forward` runs the lesson up to its next chunk. While a question is open, it refuses to go on: the
learner must not see the answer before guessing. `back` shows an old page at its old position in the
recording, without running the engine again. First answers are scored and stored.
"""

from __future__ import annotations

from dataclasses import replace

from minivllm.lessons.course.library import what_comes_next
from minivllm.lessons.teacher.lesson_engine import LessonEngine, ModelShelf
from minivllm.lessons.teacher.progress import Place, Progress
from minivllm.lessons.teacher.script import Answer, AskedQuestion, Lesson, Predict, Teacher
from minivllm.tui.lesson import Page, Stage
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS


class LessonPlayer:
    """The `minivllm.tui.lesson.LessonControl` of one lesson. Opens the first page at once."""

    def __init__(
        self,
        lesson: Lesson,
        shelf: ModelShelf,
        *,
        progress: Progress | None = None,
        resume: Place | None = None,
    ) -> None:
        """progress: stores first answers and the position; None stores nothing
        resume: the page from which to continue, with the earlier answers
        """
        self.title = f"{lesson.number}. {lesson.title}"
        self.num_pages = lesson.pages
        self._lesson = lesson
        self._progress: Progress | None = None
        self._stages: dict[LessonEngine, Stage] = {}
        self._shelf = shelf
        self.teacher = Teacher(self._build)
        self._script = lesson.run(self.teacher)
        self._question: Predict | None = None
        self.questions: list[AskedQuestion] = []
        """All questions so far that have an answer."""
        self._pages: list[Page] = []
        self._at = 0
        self._open_next()
        if resume is not None:
            self._repeat(resume)
        # Set this only now: a user who leaves during the repetition must not lose the old position.
        self._progress = progress
        self._note_page()

    def _build(self, options: dict[str, object]) -> LessonEngine:
        engine = self._shelf.engine(options)
        source = InProcessSource(engine.header, codec=MODELS)
        engine.engine.subscribe(source.put)
        self._stages[engine] = Stage(source)
        return engine

    # ---- queries ----

    @property
    def page(self) -> Page:
        return self._pages[self._at]

    @property
    def pages(self) -> tuple[Page, ...]:
        return tuple(self._pages)

    @property
    def question(self) -> Predict | None:
        return self._question if self.page.waits else None

    @property
    def engine(self) -> LessonEngine | None:
        return self.teacher.shown

    @property
    def at_newest(self) -> bool:
        return self._at == len(self._pages) - 1

    @property
    def over(self) -> bool:
        return self.page.last

    @property
    def score(self) -> tuple[int, int]:
        answered = [page.right for page in self._pages if page.right is not None]
        return sum(answered), len(answered)

    def close(self) -> None:
        for stage in self._stages.values():
            stage.source.close()

    # ---- moves ----

    def forward(self) -> str | None:
        if not self.at_newest:
            self._at += 1
        elif self.page.waits:
            return self._question.how_to_answer
        elif self.over:
            return "This is the end of the lesson."
        else:
            self._open_next()
        return None

    def back(self) -> str | None:
        if self._at == 0:
            return "This is the beginning of the lesson."
        self._at -= 1
        return None

    def answer(self, typed: str) -> str | None:
        if not self.page.waits:
            return "There is no question here."
        given = self._question.read(typed)
        if given is None:
            return self._question.how_to_answer
        self._resolve(given)
        return None

    def pass_over(self) -> None:
        """Go on without an answer. Resolves an open question; otherwise goes to the next page."""
        if self.page.waits:
            self._resolve(None)
        else:
            self.forward()

    # ---- internals ----

    def _repeat(self, place: Place) -> None:
        """Open the pages up to `place` again.

        If the lesson has changed and no longer accepts an answer, the answer is skipped.
        """
        answers = iter(place.answers)
        while self.page.number < place.page and not self.over:
            if not self.page.waits or self.answer(next(answers, "")) is not None:
                self.pass_over()

    def _open_next(self) -> None:
        chunk = next(self._script, None)
        if chunk is None:
            self._add_page(text=self._end(), last=True)
        elif isinstance(chunk, Predict):
            self._question = chunk
            self._add_page(text=chunk.question, choices=chunk.choices, unit=chunk.unit, asks=True)
        else:
            self._add_page(text=chunk.text, figure=chunk.figure, diagram=chunk.diagram)

    def _resolve(self, given: Answer | None) -> None:
        truth = self._question.find_out()
        number = len(self.questions) + 1
        self.questions.append(AskedQuestion(number, self._question, truth))
        verdict = self._question.verdict(given, truth)
        shown = "" if given is None else str(given)
        self._pages[self._at] = replace(self.page, given=shown)
        if given is not None and self._progress is not None:
            right = bool(verdict.right)
            self._progress.note_answer(self._lesson.name, str(number), shown, right)
        self._add_page(text=verdict.text, right=verdict.right)

    def _add_page(self, **fields: object) -> None:
        teacher, engine = self.teacher, self.teacher.shown
        number = len(self._pages) + 1
        page = Page(
            number=number,
            claims=teacher.take_claims(),
            focus=teacher.lit,
            chosen=teacher.chosen,
            engine=engine.name if engine else "",
            stage=self._stages.get(engine),
            position=0 if engine is None else len(engine.events),
            **fields,
        )
        self._pages.append(page)
        self._at = len(self._pages) - 1
        self._note_page()

    def _note_page(self) -> None:
        if self._progress is not None:
            given = [page.given for page in self._pages if page.given is not None]
            self._progress.note_page(self._lesson.name, self.page.number, self.page.last, given)

    def _end(self) -> str:
        right, answered = self.score
        parts = [f"This is the end of **{self._lesson.title}**."]
        if answered:
            parts.append(f"{right} of {answered} predictions were right.")
            if right < answered:
                parts.append(
                    "Each wrong one showed you something that works differently than you thought."
                )
        return " ".join([*parts, what_comes_next(self._lesson)]).rstrip()


def questions_of(lesson: Lesson, shelf: ModelShelf) -> list[AskedQuestion]:
    """Play the lesson without answers, and return its questions. This takes seconds."""
    player = LessonPlayer(lesson, shelf)
    while not player.over:
        player.pass_over()
    player.close()
    return player.questions
