"""What a lesson is made of, and `Teacher`, with which it is written.

A lesson is a generator over the real engine. It yields chunks (`Say`, `Predict`); after each the
learner presses a key, and whatever stands between two yields is what that key does. A picture is
drawn from the engine's events, a number in a text is taken from the engine, the answer to a
question is computed from it after the guess was made, and a claim is checked before it is
shown: so words and truth cannot drift apart.

    @lesson(4, "block-tables", "Blocks and block tables", minutes=8, needs=("kv-cache",))
    def run(L: Teacher) -> Script:
        engine = L.engine(num_blocks=8, block_size=4)
        engine.add("ada", "Hello!")
        yield L.say("A prompt of **6 tokens**, blocks of 4.", focus="blockmap")
        yield L.predict("How many blocks will it take?", before=engine.step,
                        answer=lambda: len(engine.table("ada")),
                        why={1: "One block holds only 4 tokens.", 6: "A block is not a token."})
        L.check("ada holds two blocks", len(engine.table("ada")) == 2)

The easy thing to get wrong is when something is computed. The arguments of `say` are, when the
chunk is reached; `answer` and `because` are called after the guess, and after `before`.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from minivllm.errors import LessonError
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import block as to_block
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.lesson import PANEL_NAMES, PanelName

if TYPE_CHECKING:
    from minivllm.lessons.teacher.lesson_engine import LessonEngine

MAX_WORDS = 60
"""In one chunk: what can be read at a glance beside a picture."""

Answer = int | float | str
"""A number, or one of the question's choices."""


def _checked(text: str, *more: str) -> None:
    count = sum(len(part.split()) for part in (text, *more))
    if count > MAX_WORDS:
        raise LessonError(
            f"A chunk has {count} words, and at most {MAX_WORDS} are read: cut the one that begins"
            f" {text[:40]!r}."
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    """A few sentences."""

    text: str

    def __post_init__(self) -> None:
        _checked(self.text)


@dataclass(frozen=True, slots=True)
class Verdict:
    """What came of a guess."""

    right: bool | None
    """None if nothing was guessed."""
    text: str

    def __post_init__(self) -> None:
        _checked(self.text)


@dataclass(frozen=True, slots=True, kw_only=True)
class Predict:
    """A question that is answered before the engine shows it."""

    question: str
    answer: Callable[[], Answer]
    """Asked of the engine, after `before`."""
    why: Mapping[Answer, str]
    """Wrong answer -> one sentence for the misconception that it shows."""
    before: Callable[[], object] | None = None
    """What the engine does once the guess is made."""
    because: str | Callable[[], str] = ""
    """One or two sentences on the right answer, told to everybody."""
    otherwise: str = ""
    """For wrong answers that `why` does not know."""
    choices: tuple[str, ...] = ()
    """The answers to choose from; without them a number is typed."""
    unit: str = ""
    """What the number counts: a noun without its s, or a sign like %."""
    tolerance: float = 0.0
    """A number is right if it is off by no more than this part of the answer (of one that is
    measured).
    """

    def __post_init__(self) -> None:
        _checked(self.question, *self.choices)
        if strangers := [
            answer for answer in self.why if self.choices and answer not in self.choices
        ]:
            raise LessonError(
                f"No choice of {self.question[:40]!r} is called {strangers[0]!r}: `why` is by"
                " choice."
            )

    def read(self, typed: str) -> Answer | None:
        """The answer that was typed: a number, or the number of a choice; None if it is neither."""
        typed = typed.strip().rstrip("%").replace(",", "").strip()
        try:
            value = float(typed)
        except ValueError:
            return next(
                (choice for choice in self.choices if choice.casefold() == typed.casefold()), None
            )
        if not abs(value) < 1e15:  # nor infinite, nor no number at all
            return None
        value = int(value) if value == int(value) else value
        if not self.choices:
            return value
        return (
            self.choices[value - 1]
            if isinstance(value, int) and 1 <= value <= len(self.choices)
            else None
        )

    @property
    def how_to_answer(self) -> str:
        """For who has typed something else."""
        if self.choices:
            return (
                f"Type the number of your answer, 1 to {len(self.choices)}. A wrong guess teaches"
                " more than none."
            )
        return "Type a number. A wrong guess teaches more than none."

    def find_out(self) -> Answer:
        """Have the engine do it, and look."""
        if self.before is not None:
            self.before()
        answer = self.answer()
        if self.choices and answer not in self.choices:
            raise LessonError(
                f"The engine answers {answer!r} to {self.question[:40]!r}, which is none of the"
                " choices."
            )
        return answer

    def verdict(self, given: Answer | None, answer: Answer) -> Verdict:
        """What to say to this guess. `given` is None where nobody was asked."""
        because = self.because if isinstance(self.because, str) else self.because()
        shown = f"**{self.shown(answer)}**"
        if given is None:
            return Verdict(None, _sentences(f"It is {shown}.", because))
        if self.is_right(given, answer):
            return Verdict(True, _sentences(f"Right: {shown}.", because))
        why = self.why.get(given, self.otherwise)
        return Verdict(
            False, _sentences(f"You said {self.shown(given)}; it is {shown}.", why, because)
        )

    def is_right(self, given: Answer, answer: Answer) -> bool:
        """Whether this guess counts, when that is the answer."""
        if isinstance(given, str) or isinstance(answer, str):
            return given == answer
        return abs(given - answer) <= self.tolerance * abs(answer)

    def shown(self, answer: Answer) -> str:
        """An answer as people read it: with its unit."""
        if isinstance(answer, str):
            return answer
        number = f"{answer:,}" if isinstance(answer, int) else f"{answer:,.3g}"
        if not self.unit.isalpha():
            return f"{number}{self.unit}"
        return f"{number} {self.unit}" if answer == 1 else f"{number} {self.unit}s"


def _sentences(*parts: str) -> str:
    return " ".join(part for part in parts if part)


Chunk = Say | Predict
Script = Generator[Chunk, None, None]


@dataclass(frozen=True, slots=True)
class Lesson:
    """One lesson of the course."""

    number: int
    name: str
    title: str
    minutes: int
    needs: tuple[str, ...]
    """Names of lessons that come before."""
    text_matters: bool
    """It shows what a real model writes, so it takes one where it is at hand."""
    watches_kernels: bool
    """It runs Triton's kernels, and shows recordings of them where Triton is not installed."""
    run: Callable[[Teacher], Script]


def lesson(
    number: int,
    name: str,
    title: str,
    *,
    minutes: int,
    needs: tuple[str, ...] = (),
    text_matters: bool = False,
    watches_kernels: bool = False,
) -> Callable[[Callable[[Teacher], Script]], Lesson]:
    """Makes a `Lesson` of a generator function. A module `l<number>_....py` has one, called
    `run`.
    """

    def make(run: Callable[[Teacher], Script]) -> Lesson:
        return Lesson(number, name, title, minutes, needs, text_matters, watches_kernels, run)

    return make


class Teacher:
    """What a lesson is written with. It notes what is lit, what is checked and which engine is
    shown; the player reads it.
    """

    def __init__(self, build: Callable[[dict[str, object]], LessonEngine]) -> None:
        """build: makes an engine from options of `EngineConfig`"""
        self._build = build
        self.lit: PanelName | None = None
        self.chosen: Target | None = None
        self.shown: LessonEngine | None = None
        self._claims: list[str] = []

    def engine(
        self, name: str = "", *, num_blocks: int | None = 16, block_size: int = 4, **options: object
    ) -> LessonEngine:
        """A new engine on the virtual clock, shown from now on. `name`: which one it is, in a
        lesson with several.

        num_blocks: None counts them from memory, as `kv_cache_memory_bytes` says
        """
        engine = self._build(
            {"num_gpu_blocks_override": num_blocks, "block_size": block_size, **options}
        )
        engine.name = name
        self.shown, self.chosen = engine, None
        return engine

    def show(self, engine: LessonEngine, focus: PanelName | None = None) -> None:
        """Show this engine from the next chunk on."""
        self.shown, self.chosen = engine, None
        self.focus(focus)

    def focus(self, panel: PanelName | None) -> None:
        """Light this panel from the next chunk on; None leaves it as it is."""
        if panel is not None and panel not in PANEL_NAMES:
            raise LessonError(
                f"There is no panel {panel!r} to light: take one of {', '.join(PANEL_NAMES)}."
            )
        self.lit = panel or self.lit

    def choose(self, target: int | str | None) -> None:
        """Look at a block (its id) or at a sequence (`ada`, `ada.1`) from the next chunk on; None:
        at nothing.
        """
        if isinstance(target, int):
            self.chosen = to_block(target)
        else:
            self.chosen = (
                None if target is None else to_sequence(target if "." in target else f"{target}.0")
            )

    def say(self, text: str, focus: PanelName | None = None) -> Say:
        """A chunk of at most 60 words; `**this**` is marked, `` `this` `` is a name."""
        self.focus(focus)
        return Say(text=text)

    def predict(
        self,
        question: str,
        *,
        answer: Callable[[], Answer],
        why: Mapping[Answer, str],
        focus: PanelName | None = None,
        before: Callable[[], object] | None = None,
        because: str | Callable[[], str] = "",
        otherwise: str = "",
        choices: tuple[str, ...] = (),
        unit: str = "",
        tolerance: float = 0.0,
    ) -> Predict:
        """A question; see `Predict`."""
        self.focus(focus)
        return Predict(
            question=question, answer=answer, why=why, before=before, because=because,
            otherwise=otherwise, choices=choices, unit=unit, tolerance=tolerance,
        )  # fmt: skip

    def check(self, claim: str, holds: bool) -> None:
        """Say what was found on the engine, if it is so. Raises `LessonError` if not, in the tests
        and everywhere.
        """
        if not holds:
            raise LessonError(
                f"The lesson says that {claim}, and on this engine that is not so: please"
                " report it."
            )
        self._claims.append(claim)

    def take_claims(self) -> tuple[str, ...]:
        """What was checked since the last call."""
        claims, self._claims = tuple(self._claims), []
        return claims
