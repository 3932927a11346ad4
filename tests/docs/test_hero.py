"""The moving picture of the home page is what the dashboard draws today, and needs nothing from
elsewhere.
"""

import asyncio
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from support.docs.built_site import DOCS
from support.tool_modules import load_tool

TOOL = load_tool("pictures/make_hero.py")
LARGEST = 400_000


@pytest.fixture(scope="module", params=TOOL.PICTURES)
def picture(request: pytest.FixtureRequest) -> Path:
    return DOCS / "assets" / request.param


@pytest.fixture(scope="module")
def frames(picture: Path) -> list[str]:
    """What the dashboard draws now, frame by frame."""
    with pytest.MonkeyPatch.context() as patch:
        patch.delenv("NO_COLOR", raising=False)
        return asyncio.run(TOOL.draw_frames(TOOL.PICTURES[picture.name]))


def test_the_moving_picture_is_what_the_dashboard_draws_today(
    picture: Path, frames: list[str]
) -> None:
    new = picture.with_suffix(".new.svg")
    new.unlink(missing_ok=True)
    drawn = TOOL.animate(frames)
    is_same = drawn == picture.read_text("utf-8")
    if not is_same:
        new.write_text(drawn, encoding="utf-8")
    assert is_same, (
        f"{picture.name} has changed: look at {new}, and if that is meant, run `make pictures`."
    )


def test_at_each_moment_the_parts_that_are_seen_are_those_of_one_frame(
    picture: Path, frames: list[str]
) -> None:
    styles: dict[str, str] = {}
    wanted = [TOOL.parts_of(frame, styles) for frame in frames]
    assert all(len(parts) == len(set(parts)) > 100 for parts in wanted)
    svg = picture.read_text("utf-8")
    groups = re.findall(r'<g class="frame f(\d+)-(\d+)">\n(.*?)\n</g>', svg, re.DOTALL)
    for number, parts in enumerate(wanted):
        seen = [
            line
            for first, end, text in groups
            if int(first) <= number < int(end)
            for line in text.split("\n")
        ]
        assert sorted(seen) == sorted(part.svg for part in parts)
        assert list(ElementTree.fromstring(frames[number]).iter(f"{TOOL.SVG}title")) == []


def test_who_asked_for_no_motion_sees_one_whole_frame(picture: Path, frames: list[str]) -> None:
    svg = picture.read_text("utf-8")
    assert (
        "@media (prefers-reduced-motion: reduce) { .frame { animation: none !important } }" in svg
    )
    still = TOOL.STEPS.index(TOOL.STILL)
    at_rest = re.findall(r"\.f(\d+)-(\d+) \{ visibility: (\w+);", svg)
    assert len(at_rest) > 50
    for first, end, seen in at_rest:
        assert (seen == "visible") == (int(first) <= still < int(end))


def test_the_moving_picture_is_small_and_asks_for_nothing(picture: Path) -> None:
    svg = picture.read_text("utf-8")
    assert picture.stat().st_size < LARGEST
    assert "<script" not in svg and "href" not in svg and "url(" not in svg and "@import" not in svg
    assert set(re.findall(r"\w+://[^\"'\s]*", svg)) == {"http://www.w3.org/2000/svg"}
