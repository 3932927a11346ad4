"""`@behaviour`: one thing that a solution must do, as a function that *tells what happens* in a
random case.

The same function runs twice: on the engine's own source here, and on the student's in its own
process. It yields lines; a solution is right if the lines are the same. So there is no second
implementation of the rule that could be wrong, a test cannot be special-cased, and the first line
that differs is the step at which it went wrong.

    def operations(draw): ...  # a random case, as plain data

    @behaviour("the last owner frees the block", task=2, points=2, hint="...", cases=operations)
    def owners(case):          # imports the engine's names inside: there they are the student's
        from minivllm.core.block_pool import BlockPool
        ...
        yield f"release({block_id}): ..."

The easy thing to get wrong is a line that differs between two right solutions (an address, a
private name, an order that nobody promised). `agree` is for results that may differ a little, such
as floats.
"""

import math
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import NamedTuple

from minivllm.lessons.checker.cases.draw import Case, CaseMaker

Observe = Callable[[Case], Iterator[str]]
Agree = Callable[[str, str], bool]
MARK = "__behaviour__"


class Behaviour(NamedTuple):
    """One entry of an exercise's behaviours.py."""

    name: str
    task: int
    """Number of the README's task that it belongs to."""
    points: int
    hint: str
    """Said when it fails and no known misconception fits."""
    cases: CaseMaker
    observe: Observe
    is_trace: bool
    """The case is a request trace and the lines are the engine's events: `diff` can open it in the
    dashboard.
    """
    examples: int
    """How many random cases are tried."""
    agree: Agree | None
    """Whether two lines say the same, where that is less than equality."""

    @property
    def key(self) -> str:
        """The function's name: how the student's process is told which one to run."""
        return self.observe.__name__

    def first_difference(self, expected: list[str], told: list[str]) -> int | None:
        """Index of the first line that differs, or that one side lacks."""
        for index, (a, b) in enumerate(zip(expected, told, strict=False)):
            if a != b and not (self.agree is not None and self.agree(a, b)):
                return index
        return None if len(expected) == len(told) else min(len(expected), len(told))


def behaviour(
    name: str,
    *,
    task: int,
    points: int,
    hint: str,
    cases: CaseMaker,
    trace: bool = False,
    examples: int = 60,
    agree: Agree | None = None,
) -> Callable[[Observe], Observe]:
    """Mark a generator function of behaviours.py as one of the exercise's behaviours."""

    def mark(observe: Observe) -> Observe:
        setattr(
            observe,
            MARK,
            Behaviour(name, task, points, hint, cases, observe, trace, examples, agree),
        )
        return observe

    return mark


def nearly(tolerance: float, half: float = 0.0) -> Agree:
    """An `agree` for lines such as `words | 1.25 -3.5`: equal words, and numbers that differ by
    rounding at most.

    `tolerance`: of a number, relative to it or to 1, whichever is more. `half`: the same where the
    words name bfloat16.
    """

    def agree(expected: str, told: str) -> bool:
        (words, _, numbers), (other_words, _, other_numbers) = (
            expected.partition("|"),
            told.partition("|"),
        )
        try:
            pairs = list(
                zip(map(float, numbers.split()), map(float, other_numbers.split()), strict=True)
            )
        except ValueError:
            return False
        least = half if half and "bfloat16" in words else tolerance
        return words == other_words and all(
            math.isclose(a, b, rel_tol=least, abs_tol=least) for a, b in pairs
        )

    return agree


def behaviours_of(module: ModuleType) -> list[Behaviour]:
    """In the order in which they stand in the file: only the first failure is shown in full."""
    return [getattr(value, MARK) for value in vars(module).values() if hasattr(value, MARK)]
