"""Recordings of a lesson's engines, which its page plays in place of still pictures.

A picture becomes a player if the player has the highlighted panel, and if the page is at the end of
a step: a player opens at the end of a step, when the next requests may have arrived already. The
picture stays inside for readers without JavaScript.
"""

from minivllm.errors import LessonError
from minivllm.events import types as ev
from minivllm.events.recording.lines import encode_event, encode_header
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.lessons.teacher.script import Lesson
from minivllm.lessons.teacher.words import standing_at
from minivllm.tui.lesson import Page, PanelName

PLAYED: frozenset[PanelName] = frozenset(
    {"slots", "blockmap", "inspector", "budget", "waiting", "freequeue", "eventlog"}
)
_BETWEEN_STEPS = (ev.TokensNamed, ev.RequestArrived)
_MEASURED = (
    ev.AttentionMass, ev.BeamPruned, ev.BeamsFound, ev.GrammarState, ev.KernelTraced,
    ev.TokenAttention, ev.TokenExplained,
)  # fmt: skip
"""Kinds with numbers from the model, whose last digits depend on the machine."""


class Plays:
    """The engines of one lesson that its page plays, numbered from 1."""

    def __init__(self, lesson: Lesson) -> None:
        self._lesson = lesson
        self._engines: list[LessonEngine] = []

    def embed(self, page: Page, engine: LessonEngine, picture: str) -> str | None:
        """Put a picture, as Markdown, into a player at the page's step; None if it stays one."""
        if self._lesson.watches_kernels or page.focus not in PLAYED:
            return None
        happened = engine.events[: page.position]
        while happened and isinstance(happened[-1], _BETWEEN_STEPS):
            happened.pop()
        at_end = bool(happened) and isinstance(happened[-1], ev.StepEnd)
        if not at_end or _is_measured(happened):
            return None
        if engine not in self._engines:
            self._engines.append(engine)
        name = self._name(1 + self._engines.index(engine))
        select = f' data-select="{chosen}"' if (chosen := _chosen(page)) else ""
        return (
            f'<div class="player" markdown data-recording="lessons/{name}"'
            f' data-step="{happened[-1].step}"{select}>\n\n{picture}\n</div>\n'
        )

    def recordings(self) -> dict[str, str]:
        """File name -> recording of the whole run of each engine that is played.

        Raises `LessonError` if an engine was watched after its first player.
        """
        return {
            f"{self._name(number)}.jsonl": self._recording(engine)
            for number, engine in enumerate(self._engines, 1)
        }

    def _name(self, number: int) -> str:
        return f"{self._lesson.name}-{number}"

    def _recording(self, engine: LessonEngine) -> str:
        if _is_measured(engine.events):
            raise LessonError(
                f"An engine of lesson {self._lesson.name} measures probabilities or attention, so its"
                " recording differs between machines: see site/plays.py."
            )
        lines = [encode_header(engine.header), *map(encode_event, engine.events)]
        return b"".join(lines).decode()


def _is_measured(events: list[ev.Event]) -> bool:
    return any(
        isinstance(event, _MEASURED) or getattr(event, "logprob", None) is not None
        for event in events
    )


def _chosen(page: Page) -> str:
    """The block or sequence that the lesson selects, or else the only running sequence."""
    if page.chosen is not None:
        kind, key, _ = page.chosen
        return f"b{key}" if kind == "block" else key
    running = standing_at(page).transport.view.fold.running
    return running[0] if len(running) == 1 else ""
