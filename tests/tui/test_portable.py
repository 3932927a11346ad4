"""Pictures in 7-bit characters: the dashboard's own signs and keys have readable substitutes."""

import ast
from pathlib import Path

from minivllm.tui.draw.portable import to_ascii

TUI = Path(__file__).parents[2] / "tui"
NEVER_DRAWN = "⇿◼⏎⌫"
"""Ends of ranges in a pattern, and Textual's signs of keys, which become words."""


def test_every_sign_in_the_source_has_a_substitute_other_than_a_question_mark() -> None:
    signs = {
        sign
        for file in TUI.rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8")))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
        for sign in node.value
        if not sign.isascii()
    }
    assert len(signs) > 50
    assert [sign for sign in sorted(signs) if to_ascii(sign) == "?"] == sorted(NEVER_DRAWN)
    shown = to_ascii("about a≠ dragon↵Once")
    assert shown == "about a# dragon\\Once", "no sign looks like punctuation"
