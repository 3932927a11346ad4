"""The engines of a lesson, at the page that shows a diagram: the figures of a diagram are theirs."""

from collections.abc import Iterable
from functools import cache
from typing import NamedTuple

from minivllm.errors import LessonError
from minivllm.events import types as ev
from minivllm.events.fold import Fold
from minivllm.lessons.course.library import find_lesson
from minivllm.lessons.site.diagrams import DIAGRAMS
from minivllm.lessons.teacher.lesson_engine import LessonEngine, ModelShelf
from minivllm.lessons.teacher.lesson_player import LessonPlayer


class Scene(NamedTuple):
    shown: LessonEngine
    """The engine that the page shows."""
    engines: dict[str, LessonEngine]
    """All engines that the lesson has built up to the page, by name."""


@cache
def scene(diagram: str) -> Scene:
    """Play the diagram's lesson up to the page that shows it."""
    player = LessonPlayer(find_lesson(DIAGRAMS[diagram].lesson), ModelShelf())
    while not player.over:
        if player.page.diagram == diagram:
            return Scene(player.teacher.shown, player.engines)
        player.pass_over()
    raise LessonError(f"No page of its lesson shows the diagram {diagram!r}.")


def fold_after(engine: LessonEngine, step: int) -> Fold:
    """The engine's state after a step."""
    return _folded(engine, (event for event in engine.events if event.step <= step))


def fold_before_sampling(engine: LessonEngine, step: int) -> Fold:
    """The engine's state while the model runs in a step."""
    end = next(
        at
        for at, event in enumerate(engine.events)
        if event.step == step and type(event) is ev.TokenSampled
    )
    return _folded(engine, engine.events[:end])


def fold_before(engine: LessonEngine, kind: type[ev.Event]) -> Fold:
    """The engine's state just before its first event of this kind."""
    end = next(at for at, event in enumerate(engine.events) if type(event) is kind)
    return _folded(engine, engine.events[:end])


def _folded(engine: LessonEngine, events: Iterable[ev.Event]) -> Fold:
    fold = Fold(engine.header)
    for event in events:
        fold.apply(event)
    return fold
