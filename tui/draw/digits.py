"""Text in large digits."""

from rich.style import Style
from textual.renderables.digits import Digits


def large_digits(text: str) -> list[str]:
    """Three rows of equal width; digits and their punctuation are large."""
    drawn = "".join(part.text for part in Digits(text).render(Style(bold=True)))
    return drawn.splitlines()
