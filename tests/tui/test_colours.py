"""The dashboard without colours."""

import pytest
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.filter import Monochrome

from minivllm.tui.draw.theme import COLOURS, Palette, themes_for


def number_of(colour: Color) -> int:
    """Which of the 16 colours the terminal shows."""
    return colour.downgrade(ColorSystem.STANDARD).number


@pytest.mark.parametrize("theme", themes_for(ascii=False), ids=lambda theme: theme.name)
def test_text_and_marks_remain_without_colours(theme) -> None:
    palette = Palette(theme.dark)

    def grey(style: Style) -> Style:
        return Monochrome().apply([Segment("word", style)], None)[0].style

    ground = number_of(grey(Style(bgcolor=theme.background)).bgcolor)
    assert ground not in [number_of(grey(palette.style(name)).color) for name in COLOURS]
    for flag, attribute in {"_": "underline", "~": "strike", "*": "bold", "!": "reverse"}.items():
        assert getattr(grey(palette.style(f"hue1{flag}")), attribute), flag
