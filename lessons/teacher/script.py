"""The parts of a lesson, and `Teacher`, the interface with which lessons are written.

A lesson is a generator that uses the real engine. It yields chunks (`Say`, `Predict`). After each
chunk the learner presses a key, and the code up to the next `yield` runs.

    @lesson(4, "block-tables", "Blocks and block tables", minutes=8, needs=("kv-cache",))
    def run(L: Teacher) -> Script:
        engine = L.engine(num_blocks=8, block_size=4)
        engine.add("ada", "Hello!")
        L.focus("blockmap")
        yield L.say("A prompt of **6 tokens**, blocks of 4.")
        yield L.predict(
            '''How many blocks will it take? [block]
            - 1: One block holds only 4 tokens.
            - 6: A block is not a token.
            = Memory is allocated in whole blocks.''',
            before=engine.step,
            answer=lambda: len(engine.table("ada")),
        )
        L.check("ada holds two blocks", len(engine.table("ada")) == 2)

A text may have line breaks anywhere: they become spaces. A question ends with the unit of its
answer, a singular noun or a sign like %, if it has one. Below it, `- guess: sentence` is a
wrong guess and the misconception behind it, `- else: ...` is for all other guesses, and `= ...` is
the reason for the right answer. If guesses are words, all are listed: they are the choices.

The text cannot contradict the engine: pictures are drawn from events, numbers are taken from the
engine, and claims are checked before they are shown. `before`, `answer` and `because` are called
after the guess, in this order.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from minivllm.errors import LessonError
from minivllm.lessons.teacher.lesson_engine import LessonEngine
from minivllm.tui.draw.selection import Target
from minivllm.tui.draw.selection import block as to_block
from minivllm.tui.draw.selection import sequence as to_sequence
from minivllm.tui.lesson import PANEL_NAMES, PanelName

MAX_WORDS = 60
"""Maximum number of words in a chunk, so that a learner can read it beside a picture."""

Track = Literal["main", "kernels", "more"]
"""Lessons of the track `kernels` run Triton's kernels, or show recordings if Triton is missing.

They, and those of `more`, can be left out: no lesson of the main track needs them.
"""

Answer = int | float | str
"""A number, or one of the question's choices."""


def _checked(*parts: str) -> None:
    count = sum(len(part.split()) for part in parts)
    if count > MAX_WORDS:
        begins = f"shorten the one that begins {parts[0][:40]!r}"
        raise LessonError(f"A chunk has {count} words, more than {MAX_WORDS}: {begins}.")


@dataclass(frozen=True, slots=True, kw_only=True)
class Say:
    text: str
    figure: tuple[str, ...] = ()
    """Rows of a drawing below the text."""
    diagram: str = ""
    """Name of the picture that the site shows in place of `figure`: docs/assets/diagrams."""

    def __post_init__(self) -> None:
        _checked(self.text)


class Verdict(NamedTuple):
    right: bool | None
    """None if there was no guess."""
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Predict:
    """A question that the learner answers before the engine shows the result."""

    question: str
    answer: Callable[[], Answer]
    """Reads the right answer from the engine, after `before`."""
    why: Mapping[Answer, str]
    """Wrong answer -> one sentence about the misconception behind this answer."""
    before: Callable[[], object] | None = None
    """What the engine does after the guess."""
    because: str | Callable[[], str] = ""
    """One or two sentences on the right answer, shown after every guess."""
    otherwise: str = ""
    """The sentence for wrong answers that are not in `why`."""
    choices: tuple[str, ...] = ()
    """The possible answers. If there are none, the answer is a number."""
    unit: str = ""
    """Unit of the number: a singular noun, or a sign like %."""
    tolerance: float = 0.0
    """Allowed relative error of a number, for measured answers."""

    def __post_init__(self) -> None:
        _checked(self.question, *self.choices)
        for answer in self.why if self.choices else ():
            self._require_choice(answer)

    def _require_choice(self, answer: Answer) -> None:
        if self.choices and answer not in self.choices:
            raise LessonError(f"{answer!r} is none of the choices of {self.question[:40]!r}.")

    def read(self, typed: str) -> Answer | None:
        """Parse the typed answer: a number, or the number or text of a choice. None if invalid."""
        typed = typed.strip()
        value = _number(typed.rstrip("%").replace(",", ""))
        if value is None or not self.choices:
            known = (choice for choice in self.choices if choice.casefold() == typed.casefold())
            return next(known, value)
        return (
            self.choices[value - 1]
            if isinstance(value, int) and 1 <= value <= len(self.choices)
            else None
        )

    @property
    def how_to_answer(self) -> str:
        how = f"the number of your answer, 1 to {len(self.choices)}" if self.choices else "a number"
        return f"Type {how}. You learn more from a wrong guess than from no guess."

    def find_out(self) -> Answer:
        """Run `before`, and return the engine's answer."""
        if self.before is not None:
            self.before()
        answer = self.answer()
        self._require_choice(answer)
        return answer

    def verdict(self, given: Answer | None, answer: Answer) -> Verdict:
        """The response to the guess `given`, which is None if the question was skipped."""
        because = self.because if isinstance(self.because, str) else self.because()
        right = None if given is None else self.is_right(given, answer)
        if given is None:
            parts = [f"**{self.shown(answer)}.**"]
        elif right:
            word = "Right" if self.shown(given) == self.shown(answer) else "Close enough"
            parts = [f"{word}: **{self.shown(answer)}**."]
        else:
            # The reason speaks about the guess ("That is ..."), so it stands beside it.
            why = self.why.get(given, self.otherwise)
            parts = [f"You said {self.shown(given)}.", why]
            parts.append(f"The answer is **{self.shown(answer)}**.")
        text = " ".join(filter(None, [*parts, because]))
        _checked(text)
        return Verdict(right, text)

    def is_right(self, given: Answer, answer: Answer) -> bool:
        if isinstance(given, str) or isinstance(answer, str):
            return given == answer
        return abs(given - answer) <= self.tolerance * abs(answer)

    def shown(self, answer: Answer) -> str:
        if isinstance(answer, str):
            return answer
        number = f"{answer:,}" if isinstance(answer, int) else f"{answer:,.3g}"
        if not self.unit.isalpha():
            return f"{number}{self.unit}"
        return f"{number} {self.unit}{'' if answer == 1 else 's'}"


class AskedQuestion(NamedTuple):
    """A question of a lesson that was played: its texts take numbers from the engine."""

    number: int
    """Position among the lesson's questions, from 1. The text is a key of `first_answers`."""
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


def _sentences(*parts: str) -> str:
    return " ".join(" ".join(parts).split())


def _read_question(text: str) -> dict[str, object]:
    """The parts of `Predict` in a question and the lines below it."""
    question, *lines = map(_sentences, re.split(r"\n *(?=[-=] )", text))
    unit = ""
    if question.endswith("]"):
        question, _, unit = question[:-1].rpartition(" [")
    parts: dict[str, object] = {"question": question, "unit": unit, "because": "", "otherwise": ""}
    why: dict[Answer, str] = {}
    choices: list[str] = []
    for line in lines:
        guess, _, sentence = line[2:].partition(": ")
        if line[0] == "=":
            parts["because"] = line[2:]
        elif guess == "else":
            parts["otherwise"] = sentence
        elif (number := _number(guess)) is not None:
            why[number] = sentence
        else:
            choices.append(guess)
            if sentence:
                why[guess] = sentence
    return {**parts, "why": why, "choices": tuple(choices)}


def _number(typed: str) -> int | float | None:
    try:
        value = float(typed)
    except ValueError:
        return None
    if not abs(value) < 1e15:  # also excludes infinity and NaN
        return None
    return int(value) if value == int(value) else value


Chunk = Say | Predict
Script = Generator[Chunk, None, None]


@dataclass(frozen=True, slots=True)
class Lesson:
    number: int
    name: str
    title: str
    run: Callable[[Teacher], Script]
    minutes: int
    pages: int = 0
    """Number of pages; 0 if it is not stated."""
    needs: tuple[str, ...] = ()
    """Names of lessons to take before this one."""
    track: Track = "main"


def lesson(
    number: int, name: str, title: str, **fields: object
) -> Callable[[Callable[[Teacher], Script]], Lesson]:
    """Decorator: make a `Lesson` of the generator function `run` in a module `l<number>_....py`."""
    return lambda run: Lesson(number, name, title, run, **fields)


class Teacher:
    def __init__(self, build: Callable[[dict[str, object]], LessonEngine]) -> None:
        self._build = build
        self.lit: PanelName | None = None
        self.chosen: Target | None = None
        self.shown: LessonEngine | None = None
        self._claims: list[str] = []

    def engine(
        self, name: str = "", *, num_blocks: int | None = 16, block_size: int = 4, **options: object
    ) -> LessonEngine:
        """Build an engine on the virtual clock, and show it from the next chunk on.

        name: the engine's name, for lessons with several engines
        num_blocks: None derives the number from `kv_cache_memory_bytes`
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
        """Highlight this panel from the next chunk on; None keeps the current one."""
        if panel is not None and panel not in PANEL_NAMES:
            raise LessonError(
                f"There is no panel {panel!r} to highlight: use one of {', '.join(PANEL_NAMES)}."
            )
        self.lit = panel or self.lit

    def choose(self, target: int | str | None) -> None:
        """Inspect a block (its id) or sequence (`ada`, `ada.1`) from the next chunk on."""
        if target is None:
            self.chosen = None
        elif isinstance(target, int):
            self.chosen = to_block(target)
        else:
            self.chosen = to_sequence(target if "." in target else f"{target}.0")

    def say(self, text: str, focus: PanelName | None = None, **drawing: object) -> Say:
        """A chunk of at most 60 words; `**this**` is emphasized, `` `this` `` is a name.

        drawing: `figure` and `diagram` of `Say`
        """
        self.focus(focus)
        return Say(text=_sentences(text), **drawing)

    def predict(
        self,
        question: str,
        *,
        answer: Callable[[], Answer],
        focus: PanelName | None = None,
        **parts: Any,
    ) -> Predict:
        """A question with its guesses, as at the top of this file.

        parts: the other parts of `Predict`, such as a `because` that only the answer allows
        """
        self.focus(focus)
        return Predict(**{**_read_question(question), "answer": answer, **parts})

    def check(self, claim: str, holds: bool) -> None:
        """Show a claim as checked. If it is false, raises `LessonError`, even outside of tests."""
        if not holds:
            raise LessonError(
                f"The lesson says: {claim}. This is not true on this engine: please report it."
            )
        self._claims.append(claim)

    def take_claims(self) -> tuple[str, ...]:
        """Return the claims that were checked since the last call."""
        claims, self._claims = tuple(self._claims), []
        return claims
