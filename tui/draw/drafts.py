"""How drafts are drawn: the same marks in slots, texts, chips and the flat batch.

[mat slept]   in brackets, faint       not verified yet
mat           underlined, bold         accepted: the model said it, too
[slept]       in brackets, struck out  rejected: the model said something else
"""

PENDING, ACCEPTED, REJECTED = "faint", "good_*", "bad~"
DRAFT = "?"
"""The sign of drafts in a bar, and of a block with drafts that are not verified."""
DRAFT_STYLE = "hue4*"
UNDONE = "~"
"""The sign of a block where rejected drafts were written."""


def draft_style(is_right: bool | None) -> str:
    """is_right: None before the verification"""
    if is_right is None:
        return PENDING
    return ACCEPTED if is_right else REJECTED


def bracketed(word: str, is_right: bool | None) -> str:
    """The word of a draft; without brackets if it was accepted."""
    return word if is_right else f"[{word}]"
