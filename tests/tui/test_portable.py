"""Pictures in 7-bit characters: the dashboard's own signs and keys have readable substitutes."""

import ast
from pathlib import Path

from support.tui.driven_app import app_for, drive, panel, show_screen, until
from textual.pilot import Pilot
from textual.widgets._footer import FooterKey

from minivllm.tui.draw.portable import to_ascii
from minivllm.tui.draw.selection import block

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


def test_where_texts_part_and_lines_break_no_sign_looks_like_punctuation() -> None:
    shown = to_ascii("about a≠ dragon↵Once")
    assert not set(shown) & set("!?/.,;:'\"-")
    assert shown == "about a# dragon\\Once"


def test_no_key_is_a_sign_that_a_keyboard_does_not_have(shared_prefix) -> None:
    for ascii in (False, True):
        app = app_for(shared_prefix.run(26), ascii=ascii)

        async def script(pilot: Pilot, app=app) -> None:
            await show_screen(pilot, "blocks")
            app.context.selection.choose(block(1))
            app.screen.set_focus(panel(app, "blocks-inspector"))
            shown = lambda: {  # noqa: E731
                key.description: key.key_display for key in app.screen.query(FooterKey)
            }
            await until(pilot, lambda: "Inspect" in shown())
            assert shown()["Inspect"] == "enter"
            assert [label for label, key in shown().items() if key == "?"] == ["Help"]

        drive(app, script, (200, 50))
