"""The dashboard's colours in a terminal with 16 of them, and without any."""

import pytest
from rich._palettes import STANDARD_PALETTE
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.filter import Monochrome

from minivllm.tui.draw.theme import COLOURS, Palette, themes_for

THEMES = themes_for("standard", ascii=False)
HUES = [f"hue{number}" for number in range(12)]


def number_of(colour: Color) -> int:
    """Which of the 16 colours the terminal shows."""
    return colour.downgrade(ColorSystem.STANDARD).number


def light_of(number: int) -> float:
    """Relative luminance (WCAG 2)."""
    parts = [
        part / 255 / 12.92 if part <= 10 else ((part / 255 + 0.055) / 1.055) ** 2.4
        for part in STANDARD_PALETTE[number]
    ]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), parts, strict=True))


def contrast(one: int, other: int) -> float:
    dark, light = sorted((light_of(one), light_of(other)))
    return (light + 0.05) / (dark + 0.05)


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_texts_can_be_read_and_owners_differ_with_16_colours(theme) -> None:
    palette = Palette.of(theme)
    grounds = [number_of(Color.parse(one)) for one in (theme.background, theme.panel)]
    numbers = {name: number_of(palette.style(name).color) for name in COLOURS}
    for name, number in numbers.items():
        least = 2 if name == "faint" else 2.5
        assert min(contrast(number, ground) for ground in grounds) > least, name
    assert len({numbers[name] for name in HUES[:8]}) == 8
    assert not {numbers[name] for name in HUES} & {numbers["muted"], numbers["text"]}


@pytest.mark.parametrize("theme", themes_for(None, ascii=False), ids=lambda theme: theme.name)
def test_text_and_marks_remain_without_colours(theme) -> None:
    palette = Palette.of(theme)

    def grey(style: Style) -> Style:
        return Monochrome().apply([Segment("word", style)], None)[0].style

    ground = number_of(grey(Style(bgcolor=theme.background)).bgcolor)
    for name in COLOURS:
        assert contrast(number_of(grey(palette.style(name)).color), ground) >= 2, name
    for flag, attribute in {"_": "underline", "~": "strike", "*": "bold", "!": "reverse"}.items():
        assert getattr(grey(palette.style(f"hue1{flag}")), attribute), flag
