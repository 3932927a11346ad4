"""The animation of the home page is what the dashboard draws today, and is self-contained."""

import asyncio
import re
from pathlib import Path

import pytest
from support.docs.built_site import DOCS
from support.tool_modules import load_tool

TOOL = load_tool("pictures/make_hero.py")
LARGEST = 400_000


@pytest.fixture(scope="module", params=TOOL.PICTURES)
def picture(request: pytest.FixtureRequest) -> Path:
    return DOCS / "assets" / request.param


def test_the_moving_picture_is_what_the_dashboard_draws_today(picture, monkeypatch):
    monkeypatch.delenv("NO_COLOR", raising=False)
    drawn = TOOL.animate(asyncio.run(TOOL.draw_frames(TOOL.PICTURES[picture.name])))
    new = picture.with_suffix(".new.svg")
    new.unlink(missing_ok=True)
    if drawn != picture.read_text("utf-8"):
        new.write_text(drawn, encoding="utf-8")
        pytest.fail(f"{picture.name} changed: look at {new}; if it is meant, `make pictures`.")


def test_readers_who_prefer_reduced_motion_see_one_whole_frame(picture):
    svg = picture.read_text("utf-8")
    assert (
        "@media (prefers-reduced-motion: reduce) { .frame { animation: none !important } }" in svg
    )
    still = TOOL.STEPS.index(TOOL.STILL)
    at_rest = re.findall(r"\.f(\d+)-(\d+) \{ visibility: (\w+);", svg)
    assert len(at_rest) > 50
    for first, end, seen in at_rest:
        assert (seen == "visible") == (int(first) <= still < int(end))


def test_the_moving_picture_is_small_and_loads_nothing(picture):
    svg = picture.read_text("utf-8")
    assert picture.stat().st_size < LARGEST
    assert "<script" not in svg and "href" not in svg and "url(" not in svg and "@import" not in svg
    assert set(re.findall(r"\w+://[^\"'\s]*", svg)) == {"http://www.w3.org/2000/svg"}
