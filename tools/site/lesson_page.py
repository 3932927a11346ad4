"""The lesson of a topic page, with its pictures and players.

The page's front matter says which pages of the lesson are drawn (`drawn`): the number N in
`minivllm lesson NAME --from N`. The site's player plays a picture if it has the highlighted panel,
and if the page is at the end of a step. The picture stays inside for readers without JavaScript.
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
from minivllm.lessons.course.course import VIEWS
from minivllm.lessons.teacher.lesson_engine import LessonEngine, ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer
from minivllm.lessons.teacher.script import AskedQuestion, Lesson
from minivllm.lessons.teacher.transcript import Transcript
from minivllm.lessons.teacher.words import standing_at
from minivllm.tui.lesson import Page

PLAYED = {"slots", "blockmap", "inspector", "budget", "waiting", "freequeue", "eventlog"}
"""Panels that the site's player has."""
_MEASURED = (
    ev.AttentionMass, ev.BeamPruned, ev.BeamsFound, ev.ExpertsRouted, ev.GrammarState,
    ev.KernelTraced, ev.TokenAttention, ev.TokenExplained,
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
    page = _LessonPage(lesson)
    text = page.write()
    if sum(name.endswith(".svg") for name in page.files) < len(page.drawn):
        raise LessonError(f"A page that docs/learn/{lesson.name}.md draws shows nothing new.")
    return Played(text, page.player.questions, page.files)


def front_matter(lesson: Lesson) -> dict:
    text = (DOCS / f"learn/{lesson.name}.md").read_text(encoding="utf-8")
    return yaml.safe_load(text.split("---\n")[1])


class _LessonPage(Transcript):
    def __init__(self, lesson: Lesson) -> None:
        super().__init__(LessonPlayer(lesson, SHELF))
        self.drawn: list[int] = front_matter(lesson)["drawn"]
        self.files: dict[str, Callable[[], str]] = {}
        self._lesson = lesson
        self._played: list[LessonEngine] = []

    def boxed(self, title: str, body: str, folded: str) -> str:
        text = f"{body}\n{box('success', 'The engine’s answer', folded)}"
        return box("question", title, text).replace("???", "!!!", 1)

    def figure(self, page: Page) -> list[str]:
        if not page.diagram:
            return super().figure(page)
        svg = (DOCS / f"assets/diagrams/{page.diagram}.svg").read_text(encoding="utf-8")
        found = (re.search(f"<{tag} [^>]*>(.*?)</{tag}>", svg)[1] for tag in ("title", "desc"))
        alt = escaped(unescape(". ".join(found)))
        return [f"![{alt}](../assets/diagrams/{page.diagram}.svg)\n"]

    def picture(self, page: Page, rows: list[str]) -> list[str]:
        if page.number not in self.drawn:
            return []
        lesson, engine = self._lesson, self.player.engine
        file = f"lessons/{lesson.number:02}-{lesson.name}-{page.number:02}.svg"
        self.files[file] = partial(draw, page, f"minivllm lesson {lesson.number}")
        alt, moment = map(escaped, words(page))
        # Link the picture to itself, so that it can be enlarged on a phone.
        shown = f"../assets/{file}"
        still = f"[![{alt}]({shown}){{ loading=lazy }}]({shown})\n"
        happened = engine.events[: page.position]
        while happened and isinstance(happened[-1], ev.TokensNamed | ev.RequestArrived):
            happened.pop()  # a player opens when the next requests may have arrived
        at_end = bool(happened) and isinstance(happened[-1], ev.StepEnd)
        is_played = lesson.track == "main" and page.focus in PLAYED and at_end
        if not is_played or _is_measured(happened):
            caption = f"{moment}. Highlighted: {VIEWS[page.focus].name}."
            return [still, f"{caption}\n{{ .caption }}\n"]
        if engine not in self._played:
            self._played.append(engine)
        name = f"lessons/{lesson.name}-{1 + self._played.index(engine)}"
        self.files[f"recordings/{name}.jsonl"] = partial(_recording, engine)
        select = f' data-select="{chosen}"' if (chosen := _chosen(page)) else ""
        return [
            f'<div class="player" markdown data-recording="{name}"'
            f' data-step="{happened[-1].step}"{select}>\n\n{still}\n</div>\n',
            f"{moment}. Step through it.\n{{ .caption }}\n",
        ]


def _recording(engine: LessonEngine) -> str:
    if _is_measured(engine.events):
        raise LessonError("A played engine measures: its recording differs between machines.")
    lines = [encode_header(engine.header), *map(encode_event, engine.events)]
    return b"".join(lines).decode()


def _is_measured(events: list[ev.Event]) -> bool:
    return any(isinstance(event, _MEASURED) or getattr(event, "logprob", None) for event in events)


def _chosen(page: Page) -> str:
    """The block or sequence that the lesson selects, or else the only running sequence."""
    if page.chosen is not None:
        kind, key, _ = page.chosen
        return f"b{key}" if kind == "block" else key
    running = standing_at(page).transport.view.fold.running
    return running[0] if len(running) == 1 else ""
