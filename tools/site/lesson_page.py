"""The lesson of a topic page: its text, its questions with folded answers, and pictures.

It is written while the lesson is played without answers. The engine's answer, the comments on
wrong guesses and the picture are folded under the question, so that a reader who scrolls does not
see them. The page's front matter says which pages of the lesson are drawn (`drawn`): the number N
in `minivllm lesson NAME --from N`.

The site's player plays a picture if it has the highlighted panel, and if the page is at the end of
a step. The picture stays inside for readers without JavaScript.
"""

import re
from collections.abc import Callable
from functools import cache, partial
from html import unescape
from typing import NamedTuple

import yaml
from page_text import DOCS, box, escaped
from pictures import draw, words

from minivllm.errors import LessonError
from minivllm.events import types as ev
from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.lessons.teacher.lesson_engine import LessonEngine, ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.questions import AskedQuestion
from minivllm.lessons.teacher.script import Lesson
from minivllm.lessons.teacher.words import page_picture, standing_at
from minivllm.tui.lesson import Page

PLAYED = {"slots", "blockmap", "inspector", "budget", "waiting", "freequeue", "eventlog"}
"""Panels that the site's player has."""
_MEASURED = (
    ev.AttentionMass, ev.BeamPruned, ev.BeamsFound, ev.GrammarState, ev.KernelTraced,
    ev.TokenAttention, ev.TokenExplained,
)  # fmt: skip
"""Kinds with numbers from the model, whose last digits depend on the machine."""
SHELF = ModelShelf()


class Played(NamedTuple):
    text: str
    questions: list[AskedQuestion]
    files: dict[str, Callable[[], str]]
    """Path below docs/assets -> function that makes the picture or recording."""


@cache
def played(lesson: Lesson) -> Played:
    """Play the lesson. Raises `LessonError` if a page to be drawn shows nothing new."""
    writer = _Writer(lesson)
    writer.write()
    return Played("\n".join(writer.parts), writer.questions, writer.files)


def front_matter(lesson: Lesson) -> dict:
    text = (DOCS / f"learn/{lesson.name}.md").read_text(encoding="utf-8")
    return yaml.safe_load(text.split("---\n")[1])


class _Writer:
    def __init__(self, lesson: Lesson) -> None:
        self.parts: list[str] = []
        self.questions: list[AskedQuestion] = []
        self.files: dict[str, Callable[[], str]] = {}
        self._lesson = lesson
        self._drawn = front_matter(lesson)["drawn"]
        self._player = LessonPlayer(lesson, SHELF)
        self._engine: str | None = None
        self._played: list[LessonEngine] = []
        self._last_rows: list[str] = []
        self._has_folded_claims = False

    def write(self) -> None:
        """Write all pages, except the final page with the score."""
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
                self.parts += [f"{escaped(page.text)}\n", *_figure(page), *self._picture(page)]
                player.pass_over()
        if len([name for name in self.files if name.endswith(".svg")]) < len(self._drawn):
            raise LessonError(
                f"A page that docs/learn/{self._lesson.name}.md draws shows nothing new."
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
        player, predict = self._player, self._player.question
        player.pass_over()
        answer = player.page
        asked = AskedQuestion(len(self.questions) + 1, predict, player.truths[-1])
        self.questions.append(asked)
        # An engine that first appears in the answer starts no section, because it is folded.
        self._engine = answer.engine
        answered = [*_claims(answer), f"{escaped(answer.text)}\n", *_misconceptions(asked)]
        answered += self._picture(answer)
        if not player.over:
            player.forward()
        if not player.over:
            answered += _claims(player.page)
            self._has_folded_claims = True
        choices = [f"{number}. {escaped(one)}" for number, one in enumerate(page.choices, 1)]
        parts = [escaped(page.text), "\n".join(choices)] if choices else [escaped(page.text)]
        fold = box("success", "The engine’s answer", "\n".join(answered))
        text = "\n\n".join([*parts, fold])
        return box("question", "What do you expect?", text).replace("???", "!!!", 1)

    def _picture(self, page: Page) -> list[str]:
        """The picture of a page, if the page is to be drawn and its picture is a new one."""
        if page.number not in self._drawn:
            return []
        rows = [page.engine, str(page.focus), *page_picture(page)]
        if rows == self._last_rows or len(rows) == 2:
            return []
        self._last_rows = rows
        lesson, engine = self._lesson, self._player.engine
        file = f"lessons/{lesson.number:02}-{lesson.name}-{page.number:02}.svg"
        self.files[file] = partial(draw, page, f"minivllm lesson {lesson.number}")
        alt, caption = map(escaped, words(page))
        # Link the picture to itself, so that it can be enlarged on a phone.
        shown = f"../assets/{file}"
        still = f"[![{alt}]({shown}){{ loading=lazy }}]({shown})\n"
        step = self._last_step(page, engine)
        if step is None:
            caption += f". Highlighted: {alt.rpartition('The panel ')[2].split(' is ')[0]}."
            return [still, f"{caption}\n{{ .caption }}\n"]
        if engine not in self._played:
            self._played.append(engine)
        name = f"lessons/{lesson.name}-{1 + self._played.index(engine)}"
        self.files[f"recordings/{name}.jsonl"] = partial(_recording, engine)
        select = f' data-select="{chosen}"' if (chosen := _chosen(page)) else ""
        return [
            f'<div class="player" markdown data-recording="{name}" data-step="{step}"{select}>\n\n'
            f"{still}\n</div>\n",
            f"{caption}. Step through it.\n{{ .caption }}\n",
        ]

    def _last_step(self, page: Page, engine: LessonEngine) -> int | None:
        """The step at whose end a player can open; None if the picture cannot be played."""
        happened = engine.events[: page.position]
        while happened and isinstance(happened[-1], ev.TokensNamed | ev.RequestArrived):
            happened.pop()  # a player opens when the next requests may have arrived
        at_end = bool(happened) and isinstance(happened[-1], ev.StepEnd)
        if self._lesson.watches_kernels or page.focus not in PLAYED or not at_end:
            return None
        return None if _is_measured(happened) else happened[-1].step


def _figure(page: Page) -> list[str]:
    if not page.diagram:
        return ["\n".join(["```text", *page.figure, "```", ""])] if page.figure else []
    svg = (DOCS / f"assets/diagrams/{page.diagram}.svg").read_text(encoding="utf-8")
    title, shown = (re.search(f"<{tag} [^>]*>(.*?)</{tag}>", svg)[1] for tag in ("title", "desc"))
    alt = escaped(unescape(f"{title}. {shown}"))
    return [f"![{alt}](../assets/diagrams/{page.diagram}.svg)\n"]


def _claims(page: Page) -> list[str]:
    claims = "".join(f"- {escaped(claim)}\n" for claim in page.claims)
    return ["Checked on the engine when this page was built:\n", claims] if claims else []


def _misconceptions(question: AskedQuestion) -> list[str]:
    lines = [f"- **{escaped(given)}**: {escaped(why)}" for given, why in question.wrong_answers]
    if question.asked.otherwise:
        other = "another answer" if question.asked.choices else "another number"
        lines.append(f"- **{other}**: {escaped(question.asked.otherwise)}")
    return ["If you expected\n", "\n".join(lines) + "\n"] if lines else []


def _recording(engine: LessonEngine) -> str:
    if _is_measured(engine.events):
        raise LessonError("A played engine measures: its recording differs between machines.")
    lines = [encode_header(engine.header), *map(encode_event, engine.events)]
    return b"".join(lines).decode()


def _is_measured(events: list[ev.Event]) -> bool:
    return any(isinstance(one, _MEASURED) or getattr(one, "logprob", None) for one in events)


def _chosen(page: Page) -> str:
    """The block or sequence that the lesson selects, or else the only running sequence."""
    if page.chosen is not None:
        kind, key, _ = page.chosen
        return f"b{key}" if kind == "block" else key
    running = standing_at(page).transport.view.fold.running
    return running[0] if len(running) == 1 else ""
