"""`Draw`: how a behaviour requests random values, independent of the generator.

Behaviours also run in the student's process, which must start quickly and without hypothesis. Draw
only plain data (numbers, strings, lists, dicts): it travels to the child as JSON.

Hypothesis shrinks to shorter lists and smaller numbers, so smaller must mean simpler. Use `list_of`
for lists: hypothesis cannot remove elements from a loop over a drawn length.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Draw(Protocol):
    """The random values of one case."""

    def integer(self, least: int, most: int) -> int:
        """A whole number; shrinks to `least`."""

    def choice(self, options: Seq[T]) -> T:
        """Shrinks to the first."""

    def boolean(self) -> bool:
        """Shrinks to False."""

    def number(self, least: float, most: float) -> float:
        """A finite float."""

    def text(self, letters: str, least: int, most: int) -> str:
        """`least` to `most` letters; shrinks to fewer and earlier letters."""

    def list_of(self, element: Callable[["Draw"], T], least: int, most: int) -> list[T]:
        """`least` to `most` elements; shrinks to fewer."""


Case = Any
"""Plain data, as in JSON."""

CaseMaker = Callable[[Draw], Case]
