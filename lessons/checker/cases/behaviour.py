"""`@behaviour`: one requirement for a solution, as a function that reports what happens in a case.

The function yields lines. It runs twice: here with the engine's own source, and in a child process
with the student's source. A solution is right if both runs yield the same lines, and the first
different line shows the wrong step. The cases are random.

    @behaviour(task=2, cases=operations)  # operations(draw): a random case, as plain data
    def owners(case):
        '''the last owner frees the block

        The hint for a wrong solution, if no known misconception matches.
        '''
        yield f"release({block_id}): ..."

Any two right solutions must yield the same lines: without addresses, private names, or an order
that the task leaves open. A student can leave out functions of a module that runs by itself, so
import that module, not its names. Import torch and Triton inside the function.
"""

import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from minivllm.lessons.checker.cases.draw import Case, Draw

Lines = Iterator[str]
Observe = Callable[[Case], Iterable[str]]
Agree = Callable[[str, str], bool]
Judge = Callable[[Case, list[str], list[str]], str]
"""(case, the engine's lines, the student's lines) -> what is wrong; empty if nothing is."""
Tell = Callable[[Case, list[str], list[str]], list[str]]
"""Like `Judge`, but returns what to report of any result, right or wrong."""
VISIBLE = "the tests of visible_test.py"
__all__ = ("VISIBLE", "Behaviour", "Case", "Draw", "Lines", "behaviour", "nearly")


class Behaviour(NamedTuple):
    name: str
    task: int
    hint: str
    cases: Callable[[Draw], Case]
    observe: Observe
    is_trace: bool = False
    """Whether cases are request traces and lines are events, which `diff` can show."""
    examples: int = 60
    agree: Agree | None = None
    judge: Judge | None = None
    """For lines without a right answer that they could be compared with."""
    tell: Tell | None = None
    is_bonus: bool = False
    """Whether a solution passes without it; it still counts in the score."""

    @property
    def key(self) -> str:
        return self.observe.__name__

    def first_difference(self, expected: list[str], actual: list[str]) -> int | None:
        """Index of the first line that differs or that one side lacks; None if all are equal."""
        for index, (a, b) in enumerate(zip(expected, actual, strict=False)):
            if a != b and not (self.agree is not None and self.agree(a, b)):
                return index
        return None if len(expected) == len(actual) else min(len(expected), len(actual))


def behaviour(*, trace: bool = False, **fields: Any) -> Callable[[Observe], Behaviour]:
    """Turn a function into a `Behaviour`: its docstring has the name, an empty line, and the hint."""

    def make(observe: Observe) -> Behaviour:
        name, hint = (" ".join(part.split()) for part in observe.__doc__.split("\n\n"))
        return Behaviour(name=name, hint=hint, observe=observe, is_trace=trace, **fields)

    return make


def nearly(tolerance: float, half: float = 0.0) -> Agree:
    """Make an `agree` for lines like `words | 1.25 -3.5`: equal words, nearly equal numbers.

    tolerance: maximum difference, relative to the number; absolute for numbers below 1
    half: the tolerance for half precision (the words contain bfloat16); 0 means `tolerance`
    """

    def agree(expected: str, actual: str) -> bool:
        words, _, numbers = expected.partition("|")
        other_words, _, others = actual.partition("|")
        least = half if half and "bfloat16" in words else tolerance
        try:
            pairs = zip(map(float, numbers.split()), map(float, others.split()), strict=True)
            is_close = [math.isclose(a, b, rel_tol=least, abs_tol=least) for a, b in pairs]
        except ValueError:
            return False
        return words == other_words and all(is_close)

    return agree


def behaviours_of(module: ModuleType) -> list[Behaviour]:
    """The behaviours in file order. The order matters: only the first failure is shown in full."""
    return [value for value in vars(module).values() if isinstance(value, Behaviour)]


def visible_tests(file: Path) -> Behaviour:
    """All tests of a visible_test.py as one behaviour: each test passes."""
    names = re.findall(r"^def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)

    def visible(case: Case) -> list[str]:  # in the child process, the tests themselves run
        return [f"{name}: passed" for name in names]

    hint = "Read the test that fails: it is a small example."
    return Behaviour(VISIBLE, 0, hint, lambda draw: {}, visible, False, 1)
