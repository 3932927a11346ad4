"""Colours: two themes for the frames, and a table of named styles for the panels.

Letters, digits and glyphs carry the meaning, so the screen also works with NO_COLOR. Each style has
one colour for each theme: a colour that is clear on black can be invisible on white.
"""

from dataclasses import replace

from rich.color import Color, blend_rgb
from rich.style import Style
from textual.theme import Theme

_FRAMES = {"frame-kind": "round", "rule-kind": "solid", "scrollbar-width": "1"}
_PLAIN_FRAMES = {"frame-kind": "ascii", "rule-kind": "ascii", "scrollbar-width": "0"}


def _theme(name: str, ground: str, panel: str, text: str, rule: str, **colours: str) -> Theme:
    return Theme(
        name=f"minivllm-{name}",
        dark=name == "dark",
        background=ground,
        surface=ground,
        panel=panel,
        foreground=text,
        primary=colours["accent"],
        variables={**_FRAMES, "rule": rule},
        **colours,
    )


DARK = _theme(
    "dark", "#10141c", "#1a212d", "#d5dce8", "#36445a", secondary="#56b6c2", accent="#7aa7ff",
    warning="#e8b04b", error="#ff7b72", success="#5fd38d",
)  # fmt: skip
LIGHT = _theme(
    "light", "#fbfbf8", "#eceef2", "#1d2430", "#b4bfce", secondary="#0b7285", accent="#1f58c7",
    warning="#8a5a00", error="#b3261e", success="#146c38",
)  # fmt: skip


def themes_for(*, ascii: bool) -> list[Theme]:
    """The dark and the light theme."""
    if not ascii:
        return [DARK, LIGHT]
    return [replace(theme, variables=theme.variables | _PLAIN_FRAMES) for theme in (DARK, LIGHT)]


# Style name -> (colour in the dark theme, colour in the light theme). Colour-blind readers can
# distinguish the first eight hues; the letters distinguish all.
COLOURS = {
    "text": ("#d5dce8", "#1d2430"),
    "muted": ("#8b9bb0", "#5a6678"),
    "tab": ("#9ca3af", "#5b606a"),
    "faint": ("#55637a", "#98a3b3"),
    "accent": ("#7aa7ff", "#1f58c7"),
    "good": ("#5fd38d", "#146c38"),
    "warn": ("#e8b04b", "#8a5a00"),
    "bad": ("#ff7b72", "#b3261e"),
    "shared": ("#ffffff", "#000000"),
    "cached": ("#7d8ca3", "#6b778a"),
    "hue0": ("#5cb8ff", "#0b63b0"),
    "hue1": ("#f2a33a", "#a85a00"),
    "hue2": ("#3ecf9a", "#0a7a55"),
    "hue3": ("#e88bc0", "#a1286f"),
    "hue4": ("#e6dc5a", "#746700"),
    "hue5": ("#ff8a6b", "#bf3b15"),
    "hue6": ("#b3a6ff", "#5b45c2"),
    "hue7": ("#a4d65e", "#4a7512"),
    "hue8": ("#46d9e6", "#006d80"),
    "hue9": ("#d977f2", "#8a1fa8"),
    "hue10": ("#c79a6b", "#7a4a1c"),
    "hue11": ("#ff6f9f", "#c2185b"),
}


_CHIP = ("#243047", "#dfe4ee")
"""The ground of a chip: a word that is one token."""
_FADED = 0.6
"""How much of its colour a faded text keeps, between the background (0) and the colour (1)."""


class Palette:
    """Style names -> Rich styles, for one of the two themes."""

    def __init__(self, dark: bool) -> None:
        self._column = 0 if dark else 1
        self._styles: dict[str, Style] = {}

    def style(self, name: str) -> Style:
        """The style for `name`: a colour, then flags.

        `-` is faded, `=` a chip, `_` underlined, `~` struck out, `*` bold and `!` reverse.
        """
        style = self._styles.get(name)
        if style is None:
            colour = Color.parse(COLOURS[name.rstrip("-=_~*!")][self._column])
            if "-" in name:
                ground = Color.parse((DARK, LIGHT)[self._column].background)
                colour = Color.from_triplet(blend_rgb(ground.triplet, colour.triplet, _FADED))
            style = Style(
                color=colour,
                bgcolor=Color.parse(_CHIP[self._column]) if "=" in name else None,
                underline="_" in name or None,
                strike="~" in name or None,
                bold="*" in name or None,
                reverse="!" in name or None,
            )
            self._styles[name] = style
        return style
