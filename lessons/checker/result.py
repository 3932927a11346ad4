"""`Result`: what a check of one submission found, for every kind of exercise."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from minivllm.lessons.checker.cases.behaviour import Behaviour
from minivllm.lessons.checker.catalogue import Exercise
from minivllm.lessons.checker.child.sandbox import Failure
from minivllm.lessons.checker.mistakes import Mistake
from minivllm.lessons.checker.search import Counterexample


class BehaviourResult(NamedTuple):
    behaviour: Behaviour
    counterexample: Counterexample | None
    told: Sequence[str] = ()
    """What there is to say about the result, right or wrong."""

    @property
    def passed(self) -> bool:
        return self.counterexample is None


class Result(NamedTuple):
    exercise: Exercise
    file: Path
    could_not_run: Failure | None
    """Why the file could not be loaded; None if it was loaded."""
    visible: list[str]
    """The failed visible tests, each with the line that failed."""
    behaviours: list[BehaviourResult]
    fitting: list[Mistake]
    """The known mistakes that fail the same cases in the same way."""
    seconds: float
    seed: int

    @property
    def misconception(self) -> Mistake | None:
        """The misconception, if exactly one fits."""
        return self.fitting[0] if len(self.fitting) == 1 else None

    @property
    def passed(self) -> bool:
        return (
            self.could_not_run is None
            and not self.visible
            and all(one.passed or one.behaviour.is_bonus for one in self.behaviours)
        )

    @property
    def visible_score(self) -> int:
        """1 if all visible tests pass: without it, a failed test could get the full score."""
        return 0 if self.visible or self.could_not_run is not None else 1

    @property
    def score(self) -> int:
        """How many behaviours pass, and 1 for the visible tests."""
        return sum(outcome.passed for outcome in self.behaviours) + self.visible_score

    @property
    def max_score(self) -> int:
        return max_score_of(len(self.behaviours))

    @property
    def first_failure(self) -> BehaviourResult | None:
        return next((outcome for outcome in self.behaviours if not outcome.passed), None)

    @property
    def is_untouched(self) -> bool:
        """Whether the check fails because the student has written nothing yet."""
        failed = [
            outcome.counterexample.failure
            for outcome in self.behaviours
            if outcome.counterexample is not None
        ]
        return bool(failed) and all(
            failure is not None and failure.kind == "todo" for failure in failed
        )

    @property
    def exit_status(self) -> int:
        """0: passed, 1: failed, 2: could not run."""
        if self.could_not_run is not None:
            return 2
        return 0 if self.passed else 1


def max_score_of(num_behaviours: int) -> int:
    return num_behaviours + 1  # all visible tests together count as one
