"""`Draw`: how a behaviour requests random values, independent of the generator.

Behaviours also run in the student's process, which must start quickly and without hypothesis. Draw
only plain data (numbers, strings, lists, dicts), because a case is sent to the child as JSON.

Hypothesis shrinks to shorter lists and smaller numbers, so smaller must mean simpler. Use `list_of`
for lists: if a loop runs over a drawn length, hypothesis cannot remove single elements.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Draw(Protocol):
    def integer(self, least: int, most: int) -> int:
        """A whole number; shrinks to `least`."""

    def choice(self, options: Seq[T]) -> T:
        """One of `options`; shrinks to the first option."""

    def boolean(self) -> bool:
        """True or False; shrinks to False."""

    def number(self, least: float, most: float) -> float:
        """A finite float."""

    def text(self, letters: str, least: int, most: int) -> str:
        """A text of `least` to `most` of these letters; shrinks to fewer and earlier letters."""

    def list_of(self, element: Callable[["Draw"], T], least: int, most: int) -> list[T]:
        """A list of `least` to `most` elements; shrinks to fewer elements."""


Case = Any
"""Plain data that JSON can encode."""

CaseMaker = Callable[[Draw], Case]
