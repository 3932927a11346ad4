"""The dashboard's colours in a terminal with 16 of them, and without any."""

import pytest
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.filter import Monochrome

from minivllm.tui.draw.theme import COLOURS, Palette, themes_for


def number_of(colour: Color) -> int:
    """Which of the 16 colours the terminal shows."""
    return colour.downgrade(ColorSystem.STANDARD).number


@pytest.mark.parametrize("theme", themes_for("standard", ascii=False), ids=lambda theme: theme.name)
def test_owners_differ_from_each_other_and_from_the_ground_with_16_colours(theme) -> None:
    palette = Palette.of(theme)
    numbers = [number_of(palette.style(f"hue{number}").color) for number in range(12)]
    assert len(set(numbers[:8])) == 8
    others = [number_of(palette.style(name).color) for name in ("muted", "text")]
    grounds = [number_of(Color.parse(name)) for name in (theme.background, theme.panel)]
    assert set(numbers).isdisjoint([*others, *grounds])


@pytest.mark.parametrize("theme", themes_for(None, ascii=False), ids=lambda theme: theme.name)
def test_text_and_marks_remain_without_colours(theme) -> None:
    palette = Palette.of(theme)

    def grey(style: Style) -> Style:
        return Monochrome().apply([Segment("word", style)], None)[0].style

    ground = number_of(grey(Style(bgcolor=theme.background)).bgcolor)
    assert ground not in [number_of(grey(palette.style(name)).color) for name in COLOURS]
    for flag, attribute in {"_": "underline", "~": "strike", "*": "bold", "!": "reverse"}.items():
        assert getattr(grey(palette.style(f"hue1{flag}")), attribute), flag
