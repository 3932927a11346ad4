"""The diagrams in a real browser: the theme of the page around them, and text that fits.

Needs a Chromium on this machine, like test_in_a_browser.py.
"""

import io
from collections.abc import Iterator
from pathlib import Path

import pytest
from matplotlib.image import imread
from playwright.sync_api import Page
from support.docs.site_in_chromium import chromium, find_chromium

from minivllm.lessons.site.diagrams import DIAGRAMS
from minivllm.tui.draw.theme import DARK, LIGHT

PICTURES = Path(__file__).parents[2] / "docs/assets/diagrams"
TEXTS = """() => [...document.querySelectorAll("text")].map(one => {
    const box = one.getBBox()
    return [one.textContent, box.x, box.y, box.width, box.height]
})"""

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(find_chromium() is None, reason="no chromium on PATH"),
]


@pytest.fixture(scope="module")
def page() -> Iterator[Page]:
    with chromium(find_chromium()) as browser:
        yield browser.new_page(color_scheme="light", viewport={"width": 500, "height": 900})


def ground_of(page: Page, colour_scheme: str, folder: Path) -> str:
    """The colour near the corner of a diagram on a page with this colour scheme."""
    address = (PICTURES / "block-table.svg").as_uri()
    around = folder / f"{colour_scheme}.html"
    around.write_text(f'<body style="color-scheme: {colour_scheme}"><img src="{address}">')
    page.goto(around.as_uri(), wait_until="load")
    picture = imread(io.BytesIO(page.locator("img").screenshot()))
    red, green, blue = (round(255 * part) for part in picture[5, picture.shape[1] // 2, :3])
    return f"#{red:02x}{green:02x}{blue:02x}"


def test_a_diagram_follows_the_switch_of_the_page_and_not_only_the_system(
    page: Page, tmp_path: Path
) -> None:
    """Material's switch sets `color-scheme`. The system prefers light here."""
    assert ground_of(page, "light", tmp_path) == LIGHT.background
    assert ground_of(page, "dark", tmp_path) == DARK.background


@pytest.mark.parametrize("name", DIAGRAMS)
def test_in_this_browsers_fonts_no_text_is_cut_or_on_another_text(name: str, page: Page) -> None:
    page.goto((PICTURES / f"{name}.svg").as_uri(), wait_until="load")
    width = page.evaluate("() => document.documentElement.viewBox.baseVal.width")
    texts = page.evaluate(TEXTS)
    assert [words for words, x, _, wide, _ in texts if x < 4 or x + wide > width - 4] == []
    slack = 4  # a line's box has some room above and below its letters
    over = [
        (one[0], other[0])
        for at, one in enumerate(texts)
        for other in texts[at + 1 :]
        if one[1] < other[1] + other[3]
        and other[1] < one[1] + one[3]
        and one[2] + slack < other[2] + other[4] - slack
        and other[2] + slack < one[2] + one[4] - slack
    ]
    assert over == []
