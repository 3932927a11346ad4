"""The diagrams have today's figures, and can be read: in both themes, on a phone, by ear."""

import re
from inspect import getmodule, getsource
from itertools import combinations
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.color import Color
from support.model.one_thread import one_thread  # noqa: F401  (a fixture)
from support.tool_modules import load_tool

from minivllm.lessons.course.library import find_lesson
from minivllm.lessons.site.diagrams import DIAGRAMS, OF_EXERCISES
from minivllm.tui.state.letters import Letters

TOOL = load_tool("pictures/make_diagrams.py")
COLOURS = load_tool("pictures/diagrams/colours.py")
SVG = "{http://www.w3.org/2000/svg}"
PHONE = 328
"""Pixels of the text column on a phone of 360 pixels."""
SMALLEST = 12
"""Pixels of the smallest text there."""
AA = 4.5
"""WCAG: the least contrast of text."""
SANS, STRONG, MONO = 7.0, 8.0, 8.13
"""Width of a character of 13.5 units, as in DejaVu: wider than most other fonts."""


def committed(name: str) -> str:
    return (TOOL.PICTURES / f"{name}.svg").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_has_the_figures_of_its_lesson_today(name: str) -> None:
    assert TOOL.draw(name) == committed(name), "it has fallen behind: `make pictures` draws it"


def test_every_diagram_is_drawn_and_shown_by_its_lesson() -> None:
    assert set(TOOL.DRAWN) == set(DIAGRAMS) == {path.stem for path in TOOL.PICTURES.iterdir()}
    pages = [path.read_text("utf-8") for path in TOOL.PICTURES.parents[1].rglob("*.md")]
    for name, diagram in DIAGRAMS.items():
        source = getsource(getmodule(find_lesson(diagram.lesson).run))
        assert f'diagram="{name}"' in source
        assert any(f"assets/diagrams/{name}.svg)" in page for page in pages), name
    assert set(OF_EXERCISES.values()) <= set(DIAGRAMS)


@pytest.mark.parametrize("name", DIAGRAMS)
def test_a_diagram_can_be_read_by_ear_and_loads_nothing(name: str) -> None:
    svg = committed(name)
    root = ElementTree.fromstring(svg)
    title, description = (root.find(f"{SVG}{kind}") for kind in ("title", "desc"))
    assert (title.text, description.text) == (DIAGRAMS[name].title, DIAGRAMS[name].description)
    assert root.get("role") == "img"
    assert root.get("aria-labelledby") == f"{title.get('id')} {description.get('id')}"
    assert "<script" not in svg and "href" not in svg and "url(" not in svg
    assert set(re.findall(r"\w+://[^\"'\s]*", svg)) == {"http://www.w3.org/2000/svg"}


@pytest.mark.parametrize("name", DIAGRAMS)
def test_on_a_phone_no_text_is_small_cut_or_on_another_text(name: str) -> None:
    svg = committed(name)
    width = float(ElementTree.fromstring(svg).get("viewBox").split()[2])
    sizes = [float(size) for size in re.findall(r"font(?:-size)?: ([\d.]+)px", svg)]
    assert sizes and min(sizes) * PHONE / width >= SMALLEST
    boxes = texts_of(svg)
    assert [words for words, left, right, _ in boxes if left < 4 or right > width - 4] == []
    on_each_other = [
        (one[0], other[0])
        for one, other in combinations(boxes, 2)
        if abs(one[3] - other[3]) < 11 and one[1] < other[2] and other[1] < one[2]
    ]
    assert on_each_other == []


def texts_of(svg: str) -> list[tuple[str, float, float, float]]:
    """(words, left, right, base line) of every text, by the width of its characters."""
    found = []
    for text in ElementTree.fromstring(svg).iter(f"{SVG}text"):
        style, x, y = text.get("class"), float(text.get("x")), float(text.get("y"))
        character = MONO if "mono" in style else STRONG if "strong" in style else SANS
        length = len(text.text) * character * (16 / 13.5 if "title" in style else 1)
        left = x - {"middle": length / 2, "end": length, None: 0}[text.get("text-anchor")]
        found.append((text.text, left, left + length, y))
    return found


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_every_text_has_enough_contrast_on_its_ground(dark: bool) -> None:
    pairs = COLOURS.contrasts(dark=dark)
    low = {name: contrast(*pair) for name, pair in pairs.items() if contrast(*pair) < AA}
    assert len(pairs) > 20 and low == {}


def contrast(one: str, other: str) -> float:
    """The ratio of WCAG 2.1."""
    lights = sorted(map(luminance, (one, other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def luminance(colour: str) -> float:
    parts = (part / 255 for part in Color.parse(colour).triplet)
    linear = [p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts]
    return sum(share * part for share, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def test_a_request_has_the_colour_that_it_has_on_the_dashboard() -> None:
    letters = Letters()
    for name in ("ada", "bob", "cleo", "dan", "eve"):
        letters.assign(f"{name}.0")
        assert COLOURS.hue_of(name) == letters.hues[letters.given[f"{name}.0"]]


def test_both_themes_style_the_same_things() -> None:
    style = COLOURS.style_sheet()
    light, dark = style.split("@media (prefers-color-scheme: dark) {")
    styled = re.findall(r"^ (\.[\w.]+) \{ .*(?:fill|stroke): #", dark, re.MULTILINE)
    assert len(styled) > 30 and all(f"\n {one} {{" in light for one in styled)
    used = {
        word
        for path in Path(TOOL.PICTURES).iterdir()
        for style in re.findall(r'class="([^"]+)"', path.read_text("utf-8"))
        for word in style.split()
    }
    assert {word for word in used if f".{word}" not in style} == set()
