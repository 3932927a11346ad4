"""`Draw`: the random values of a case, as a list of choices that can be made smaller.

Draw only plain data, because a case is sent to the child as JSON. Each value comes from a whole
number, and a smaller one must mean a simpler value: to shrink a case is to leave choices out or to
lower them, and to draw it again (like hypothesis does). Only elements of `list_of` are left out.
"""

from collections.abc import Callable, Sequence
from math import ceil
from random import Random
from typing import Any, TypeVar

T = TypeVar("T")
Case = Any
_AT_AN_END = 0.125


class Draw:
    def __init__(self, random: Random, size: float = 1.0, given: list[int] | None = None) -> None:
        """size: scales the ranges; at most 1. given: choices in place of random ones, then zeros"""
        self._random, self._size = random, size
        self._given = None if given is None else iter(given)
        self.choices: list[int] = []
        self.elements: list[slice] = []
        """The choices of each list element that can be left out."""

    def integer(self, least: int, most: int) -> int:
        """A whole number; shrinks to `least`. Both ends of the range are more frequent."""
        return least + self._choose(most - least, lambda: self._up_to(most - least))

    def choice(self, options: Sequence[T]) -> T:
        """One of `options`; shrinks to the first option."""
        count = len(options)
        return options[self._choose(count - 1, lambda: self._random.randrange(count))]

    def boolean(self) -> bool:
        return bool(self._choose(1, lambda: self._random.random() < 0.5))

    def text(self, letters: str, least: int, most: int) -> str:
        """A text of `least` to `most` of these letters; shrinks to fewer and earlier letters."""
        return "".join(self.list_of(lambda draw: draw.choice(letters), least, most))

    def list_of(self, element: Callable[["Draw"], T], least: int, most: int) -> list[T]:
        """A list of `least` to `most` elements; shrinks to fewer elements."""
        count = least + (self._up_to(most - least) if self._given is None else 0)
        found: list[T] = []
        while len(found) < most:
            begin, is_optional = len(self.choices), len(found) >= least
            if is_optional and not self._choose(1, lambda: len(found) < count):
                break
            found.append(element(self))
            if is_optional:
                self.elements.append(slice(begin, len(self.choices)))
        return found

    def _choose(self, most: int, drawn: Callable[[], int]) -> int:
        chosen = drawn() if self._given is None else min(next(self._given, 0), most)
        self.choices.append(int(chosen))
        return self.choices[-1]

    def _up_to(self, most: int) -> int:
        most = ceil(most * self._size)
        end = self._random.random()
        if end < 2 * _AT_AN_END:
            return 0 if end < _AT_AN_END else most
        return self._random.randint(0, most)
