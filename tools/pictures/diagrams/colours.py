"""The dashboard's colours as a style sheet with two themes.

A picture follows the colour scheme of the page around it. On the site that is the switch in the
header: the theme sets `color-scheme`, which `prefers-color-scheme` inside of an image obeys. On a
code host it is the reader's setting. Custom properties would be shorter, but not every program that
shows SVG knows them.
"""

from rich.color import Color, blend_rgb

from minivllm.tui.draw.theme import DARK, LIGHT, Palette
from minivllm.tui.state.letters import ALPHABET, NUM_HUES

NUM_USED_HUES = 9
"""0 to 5 are requests' colours; 6 to 8 are for parts that belong to no request."""
_TINT = 0.24
"""How much of a request's colour its cells have."""


def hue_of(name: str) -> int:
    """A request's colour, as in the dashboard: `ada` and `ada.1` have that of the letter a."""
    return ALPHABET.index(name[0]) % NUM_HUES


def style_sheet() -> str:
    light, dark = _rules(dark=False), _rules(dark=True)
    return f"{_SHAPES}{light}@media (prefers-color-scheme: dark) {{\n{dark}}}\n"


class _Look:
    def __init__(self, dark: bool) -> None:
        self._palette = Palette(dark)
        theme = DARK if dark else LIGHT
        self.card, self.box, self.rule = theme.background, theme.panel, theme.variables["rule"]

    def colour(self, name: str) -> str:
        return self._palette.style(name).color.get_truecolor().hex

    def tint(self, name: str) -> str:
        ground, colour = Color.parse(self.card).triplet, Color.parse(self.colour(name)).triplet
        return blend_rgb(ground, colour, _TINT).hex


def _rules(*, dark: bool) -> str:
    look = _Look(dark)
    texts = ("text", "muted", "accent", "good", "bad", "warn")
    rules = {
        ".card": f"fill: {look.card}; stroke: {look.rule}",
        ".box": f"fill: {look.box}; stroke: {look.rule}",
        ".empty": f"fill: none; stroke: {look.colour('faint')}",
        ".cached": f"fill: {look.box}; stroke: {look.colour('cached')}",
        ".line.faint": f"stroke: {look.colour('faint')}; stroke-width: 1",
        ".line": f"stroke: {look.colour('muted')}",
        ".head": f"fill: {look.colour('muted')}",
        ".bar": f"fill: {look.colour('muted')}",
        **{f".{name}": f"fill: {look.colour(name)}" for name in texts},
        **{f".line.{name}": f"fill: none; stroke: {look.colour(name)}" for name in texts[2:]},
        **{f".head.{name}": f"fill: {look.colour(name)}" for name in texts[2:]},
    }
    for hue in range(NUM_USED_HUES):
        colour = look.colour(f"hue{hue}")
        rules[f".h{hue}"] = f"fill: {look.tint(f'hue{hue}')}; stroke: {colour}"
        rules[f".t{hue}"] = f"fill: {colour}"
        rules[f".line.l{hue}"] = f"fill: none; stroke: {colour}"
        rules[f".head.l{hue}"] = f"fill: {colour}"
    return "".join(f" {selector} {{ {rule} }}\n" for selector, rule in rules.items())


_SHAPES = """
 text { font: 13.5px system-ui, -apple-system, "Segoe UI", Roboto, "Helvetica Neue", Arial, \
sans-serif }
 .title { font-size: 16px; font-weight: 600 } .strong { font-weight: 600 }
 .mono { font-family: ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace }
 .line { fill: none; stroke-width: 1.5 } .dashed { stroke-dasharray: 4 3 }
 .empty { stroke-dasharray: 3 3 } .thick { stroke-width: 2.5 }
"""
