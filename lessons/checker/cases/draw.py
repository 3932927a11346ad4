"""`Draw`: how a behaviour asks for random cases, without knowing who draws them.

Behaviours run in the student's process too, which should start quickly and must not depend on
hypothesis; so they say what they want in these few words, and `search` draws at random, or has
hypothesis draw where a case is to shrink. What is drawn must be plain data (numbers, strings,
lists, dicts): it travels as JSON to the student's process.

The easy thing to get wrong is what a case shrinks to: hypothesis makes lists shorter and numbers
smaller, so "less" must mean "simpler". Lists come from `list_of`, never from a loop over a drawn
length, or elements cannot be left out.
"""

from collections.abc import Callable
from collections.abc import Sequence as Seq
from typing import Any, Protocol, TypeVar

T = TypeVar("T")


class Draw(Protocol):
    """One random case in the making."""

    def integer(self, least: int, most: int) -> int:
        """A whole number; shrinks to the least."""

    def choice(self, options: Seq[T]) -> T:
        """One of them; shrinks to the first."""

    def boolean(self) -> bool:
        """Shrinks to false."""

    def number(self, least: float, most: float) -> float:
        """A finite float."""

    def text(self, letters: str, least: int, most: int) -> str:
        """From `least` to `most` of these letters; shrinks by leaving letters out, and towards the
        first.
        """

    def list_of(self, element: Callable[["Draw"], T], least: int, most: int) -> list[T]:
        """From `least` to `most` elements, each drawn by `element`; shrinks by leaving elements
        out.
        """


Case = Any
"""Plain data, as JSON has it."""

CaseMaker = Callable[[Draw], Case]
