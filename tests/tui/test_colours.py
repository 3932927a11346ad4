"""The dashboard's colours in a terminal with 16 of them, and without any."""

from argparse import Namespace
from itertools import combinations

import pytest
from rich._palettes import STANDARD_PALETTE
from rich.color import Color, ColorSystem
from rich.segment import Segment
from rich.style import Style
from textual.filter import Monochrome

from minivllm.cli.dashboard import make_app
from minivllm.tui.draw.theme import COLOURS, Palette, themes_for
from minivllm.tui.sources.in_process import InProcessSource
from minivllm.tui.state.model import MODELS

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
def test_every_text_can_be_read_on_its_ground_with_16_colours(theme) -> None:
    palette = Palette.of(theme)
    grounds = [number_of(Color.parse(one)) for one in (theme.background, theme.panel)]
    for name in COLOURS:
        number = number_of(palette.style(name).color)
        least = 2 if name == "faint" else 2.5
        assert min(contrast(number, ground) for ground in grounds) > least, name
    for name in ("text", "muted", "cached", "good", "warn", "bad", "accent"):
        chip = palette.style(f"{name}=")
        assert contrast(number_of(chip.color), number_of(chip.bgcolor)) > 2, name
    for part in ("primary", "accent", "warning", "error", "success", "foreground"):
        number = number_of(Color.parse(getattr(theme, part)))
        assert min(contrast(number, ground) for ground in grounds) > 2.5, part


@pytest.mark.parametrize("theme", THEMES, ids=lambda theme: theme.name)
def test_owners_are_coloured_differently_with_16_colours(theme) -> None:
    palette = Palette.of(theme)
    numbers = {name: number_of(palette.style(name).color) for name in (*HUES, "muted", "text")}
    first = [numbers[name] for name in HUES[:8]]
    assert all(one != other for one, other in combinations(first, 2))
    assert not {numbers[name] for name in HUES} & {numbers["muted"], numbers["text"]}
    # A free block keeps its owner's colour; its sign differs, and it is dim.
    assert (
        palette.style("hue3-").dim and palette.style("hue3-").color == palette.style("hue3").color
    )


@pytest.mark.parametrize("theme", themes_for(None, ascii=False), ids=lambda theme: theme.name)
def test_text_and_marks_remain_without_colours(theme) -> None:
    palette = Palette.of(theme)

    def grey(style: Style) -> Style:
        return Monochrome().apply([Segment("word", style)], None)[0].style

    ground = number_of(grey(Style(bgcolor=theme.background)).bgcolor)
    for name in COLOURS:
        least = 2 if name == "faint" else 2.5
        assert contrast(number_of(grey(palette.style(name)).color), ground) > least, name
    for flag, attribute in {"_": "underline", "~": "strike", "*": "bold", "!": "reverse"}.items():
        assert getattr(grey(palette.style(f"hue1{flag}")), attribute), flag


@pytest.mark.parametrize(
    ("system", "no_color", "blue"),
    [("standard", "", "#5555ff"), ("truecolor", "", "#7aa7ff"), ("standard", "1", "#7aa7ff")],
)
def test_the_app_takes_the_colours_that_the_terminal_has(
    shared_prefix, monkeypatch, system: str, no_color: str, blue: str
) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    if no_color:
        monkeypatch.setenv("NO_COLOR", no_color)
    monkeypatch.setattr("textual.constants.COLOR_SYSTEM", system)
    args = Namespace(ascii=False, keys=None, light=False)
    app = make_app(args, InProcessSource(shared_prefix.header, codec=MODELS))
    assert app.current_theme.accent == blue
