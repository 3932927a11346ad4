"""How sure the model was of a word, as a style: surer words are calmer.

Unlikely words are also underlined, so that they are marked without colours.
"""

from minivllm.tui.draw.lines import Row
from minivllm.tui.draw.selection import Target

SCALE: tuple[tuple[int, str], ...] = ((60, "good"), (30, "hue4"), (10, "warn_"), (0, "bad_*"))
"""(From this many percent on, style), the surest first."""


def confidence_style(percent: int | None) -> str:
    """The style of a word with this probability; plain if the probability is unknown."""
    if percent is None:
        return "text"
    return next(style for least, style in SCALE if percent >= least)


def put_word(row: Row, word: str, style: str, target: Target | None) -> None:
    """Append a word; the spaces before it are not underlined, struck out or in reverse."""
    bare = word.lstrip(" ") if any(mark in style for mark in "_~!") else word
    row.put(word[: len(word) - len(bare)], "text", target=target).put(bare, style, target=target)
