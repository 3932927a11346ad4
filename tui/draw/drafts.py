"""How drafted and unsure words are drawn: the same marks on every panel.

[mat slept]   in brackets, faint       not verified yet
mat           underlined, bold         accepted: the model said it, too
mat           underlined, blue         forced: the grammar allowed nothing else, so it took no step
[slept]       in brackets, struck out  rejected: the model said something else
"""

from minivllm.tui.draw.lines import Row
from minivllm.tui.draw.selection import Target

PENDING, ACCEPTED, REJECTED = "faint", "good_*", "bad~"
FORCED = "accent_*"
"""Accepted drafts of a grammar (jump-forward)."""
DRAFT, FORCED_SIGN = "?", "!"
"""The sign of drafts in a bar, and of a block with drafts that are not verified; that of drafts in
a bar, and of tokens in a row of words, which a grammar forced.
"""
DRAFT_STYLE, FORCED_STYLE = "hue4*", "accent*"
UNDONE = "~"
"""The sign of a block where rejected drafts were written."""


def draft_style(is_right: bool | None, *, forced: bool = False) -> str:
    """is_right: None before the verification; forced: by a grammar"""
    if is_right is None:
        return PENDING
    if not is_right:
        return REJECTED
    return FORCED if forced else ACCEPTED


def bracketed(word: str, is_right: bool | None) -> str:
    """The word of a draft; without brackets if it was accepted."""
    return word if is_right else f"[{word}]"


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
