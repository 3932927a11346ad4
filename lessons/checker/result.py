"""`Result`: what a check of one submission found, for every kind of exercise."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.checker.cases.behaviour import Behaviour
from minivllm.lessons.checker.cases.draw import Case
from minivllm.lessons.checker.catalogue import Exercise, Mistake

UNUSABLE = "its result or its side effects cannot be used: "
"""Prefix for errors raised outside the student's file, from what it returned or changed."""


class Failure(NamedTuple):
    kind: str
    """One of: raised, todo, time, memory, output, exit, channel, died, missed, answer."""
    text: str

    @property
    def is_about_the_code(self) -> bool:
        """Whether the code ran and was wrong: then a hint and a smaller case help."""
        return self.kind in ("raised", "missed", "answer")


class Counterexample(NamedTuple):
    case: Case
    expected: list[str]
    actual: list[str]
    index: int
    """Index of the first line that differs, or that one side lacks."""
    failure: Failure | None
    """Why the student's lines end early; None if they do not."""


class BehaviourResult(NamedTuple):
    behaviour: Behaviour
    counterexample: Counterexample | None
    told: Sequence[str] = ()
    """What there is to say about the result, right or wrong."""

    @property
    def passed(self) -> bool:
        return self.counterexample is None

    @property
    def failure(self) -> Failure | None:
        return None if self.counterexample is None else self.counterexample.failure


class Result(NamedTuple):
    exercise: Exercise
    file: Path
    could_not_run: Failure | None
    behaviours: list[BehaviourResult]
    fitting: list[Mistake]
    """The known mistakes that fail the same cases in the same way."""
    seconds: float
    seed: int

    @property
    def misconception(self) -> Mistake | None:
        return self.fitting[0] if len(self.fitting) == 1 else None

    @property
    def passed(self) -> bool:
        return all(outcome.passed or outcome.behaviour.is_bonus for outcome in self.behaviours)

    @property
    def score(self) -> int:
        return sum(outcome.passed for outcome in self.behaviours)

    @property
    def max_score(self) -> int:
        return len(self.behaviours)

    @property
    def first_failure(self) -> BehaviourResult | None:
        return next((outcome for outcome in self.behaviours if not outcome.passed), None)

    @property
    def is_untouched(self) -> bool:
        """Whether the check fails because the student has written nothing yet."""
        kinds = {part.failure and part.failure.kind for part in self.behaviours if not part.passed}
        return kinds == {"todo"}

    @property
    def exit_status(self) -> int:
        """0: passed, 1: failed, 2: could not run."""
        return 2 if self.could_not_run is not None else int(not self.passed)


def result_without_cases(exercise: Exercise, file: Path, failure: Failure, seed: int = 0) -> Result:
    """Every behaviour fails for the same reason: the file could not be run."""
    nothing = Counterexample({}, [], [], 0, failure)
    results = [BehaviourResult(behaviour, nothing) for behaviour in exercise.behaviours()]
    return Result(exercise, file, failure, results, [], 0.0, seed)
