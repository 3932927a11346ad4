"""The player in Chromium, from file://: it steps, seeks, links, compares and survives bad files."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page
from support.docs.site_in_chromium import NEEDS_CHROMIUM, one_browser  # noqa: F401  (a fixture)

from minivllm.cli.recordings.bundle import player_script
from minivllm.cli.recordings.web import script_of, write_page
from minivllm.events.recording.recording import Recording
from minivllm.text import short_name

RECORDINGS = Path(__file__).parents[3] / "docs/assets/recordings"
BURST = RECORDINGS / "burst.jsonl"
POLICIES = [
    RECORDINGS / f"policies/{name}.jsonl" for name in ("static+contiguous", "continuous+paged")
]


pytestmark = NEEDS_CHROMIUM


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 1200, "height": 900})
    page, faults = context.new_page(), []
    page.on("console", lambda said: said.type == "error" and faults.append(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda asked: asked.url.startswith("http") and faults.append(asked.url))
    yield page
    context.close()
    assert faults == []


def play(page: Page, folder: Path, *paths: Path, step: int | None = None, end: str = "") -> None:
    file = folder / "page.html"
    write_page(file, paths, step)
    page.goto(file.as_uri() + end)
    page.locator(".p-player").wait_for()


def step_shown(page: Page) -> int:
    return int(re.search(r"step (\d+)", page.locator(".p-step").inner_text())[1])


def state_shown(page: Page) -> dict:
    """What a reader sees of the state: running names, waiting names, blocks in use."""
    names = "all => all.map(one => one.textContent)"
    title = page.locator(".p-panel-blocks .p-title").inner_text()
    return {
        "running": sorted(page.locator(".p-slot .p-name").evaluate_all(names)),
        "waiting": page.locator(".p-waiting .p-name").evaluate_all(names),
        "used": int(re.search(r"(\d+) of", title)[1]),
        "held": page.locator(".p-block.p-held, .p-block.p-shared").count(),
        "cached": page.locator(".p-block.p-cached").count(),
    }


def state_of(recording: Recording, step: int) -> dict:
    fold = recording.view_at_step(step)
    used = sum(block.ref_cnt > 0 for block in fold.blocks)
    cached = sum(block.ref_cnt == 0 and block.hash is not None for block in fold.blocks)
    return {
        "running": sorted(map(short_name, fold.running)),
        "waiting": list(map(short_name, fold.waiting)),
        "used": used,
        "held": used,
        "cached": cached,
    }


def test_every_step_on_the_page_is_that_of_the_recording(page, tmp_path):
    recording = Recording(RECORDINGS / "memory-pressure.jsonl")
    play(page, tmp_path, RECORDINGS / "memory-pressure.jsonl", step=1)
    page.locator(".p-player").focus()
    for step in range(1, 90):
        assert step_shown(page) == step
        assert state_shown(page) == state_of(recording, step), step
        page.keyboard.press("ArrowRight")
    page.keyboard.press("End")
    assert state_shown(page) == state_of(recording, recording.last_step)
    page.keyboard.press("ArrowLeft")
    assert state_shown(page) == state_of(recording, recording.last_step - 1)
    recording.close()


def test_a_link_opens_its_step_and_the_link_button_makes_one(page, tmp_path):
    play(page, tmp_path, BURST, end="#recording=burst&step=41")
    page.wait_for_function("() => document.querySelector('.p-step').textContent.includes(' 41 ')")
    page.locator(".p-player").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("Link to this step").click()
    assert page.evaluate("location.hash") == "#recording=burst&step=42"


def test_two_recordings_run_on_one_clock(page, tmp_path):
    play(page, tmp_path, *POLICIES, step=60)
    recordings = [Recording(path) for path in POLICIES]
    found = re.search(r"([\d.]+) s: steps (\d+) and (\d+)", page.locator(".p-step").inner_text())
    for recording, step in zip(recordings, (int(found[2]), int(found[3])), strict=True):
        *_, last = recording.events(0, recording.step_end(step))
        assert last.t - recording.header.mono <= float(found[1]) + 0.005
        recording.close()
    assert page.locator(".p-view").count() == 2


def test_playing_goes_on_by_itself_and_space_stops_it(page, tmp_path):
    play(page, tmp_path, BURST, step=3)
    page.locator(".p-player").focus()
    page.keyboard.press(" ")
    page.wait_for_function(
        "() => Number(/step (\\d+)/.exec(document.querySelector('.p-step').textContent)[1]) > 5"
    )
    page.keyboard.press(" ")
    stopped = step_shown(page)
    page.wait_for_timeout(700)
    assert step_shown(page) == stopped


def test_a_block_and_a_sequence_say_why(page, tmp_path):
    play(page, tmp_path, BURST, step=41)
    page.locator(".p-block").nth(16).click()
    assert "Block 16 is held by dan alone" in page.locator(".p-why").inner_text()
    page.locator(".p-waiting [data-sequence]").nth(1).click()
    assert "june is number 2 in the queue" in page.locator(".p-why").inner_text()
    page.locator(".p-block").nth(16).hover()  # pointing asks, too, until the pointer leaves
    assert "Block 16 is held by dan alone" in page.locator(".p-why").inner_text()
    page.locator(".p-controls").hover()
    assert "june is number 2 in the queue" in page.locator(".p-why").inner_text()
    assert "step 41" in page.locator("[aria-live]").inner_text().lower()


def test_the_story_is_told_above_the_panels_and_never_used_blocks_are_one_line(page, tmp_path):
    play(page, tmp_path, RECORDINGS / "memory-pressure.jsonl", step=66)
    told = "step 66 ada needed 1 block, none was free: dan gives up its blocks"
    assert page.locator(".p-story").inner_text() == told
    assert "Click a block" in page.locator(".p-why").inner_text()
    play(page, tmp_path, RECORDINGS / "long-and-short.jsonl", step=1)
    assert page.locator(".p-block").count() == 64
    assert "+ 80 blocks never used" in page.locator(".p-panel-blocks").inner_text()


@pytest.mark.parametrize(
    ("asked", "step", "said"),
    [
        ("12", 12, ""), ("b16", 41, "Block 16 is held by dan alone"),
        ("june", 41, "june is number 2 in the queue"), ("b99999", 41, "There is no block"),
        ("nobody", 41, "nobody is not known"),
    ],
)  # fmt: skip
def test_the_key_g_goes_to_a_step_a_request_or_a_block(page, tmp_path, asked, step, said):
    play(page, tmp_path, BURST, step=41)
    page.on("dialog", lambda question: question.accept(asked))
    page.locator(".p-player").focus()
    page.keyboard.press("g")
    assert step_shown(page) == step
    assert said in page.locator(".p-why").inner_text()


def drop_page(folder: Path) -> str:
    page = folder / "drop.html"
    recording = script_of("burst", BURST.read_bytes())
    page.write_text(
        '<!doctype html><html lang="en"><title>drop</title><body>'
        '<div class="player" data-drop data-recording="burst"></div>'
        f"<script>{recording}{player_script()}</script>"
    )
    return page.as_uri()


def test_a_chosen_file_plays_in_the_page_and_a_bad_one_gets_a_sentence(page, tmp_path):
    lines = BURST.read_bytes().splitlines(keepends=True)
    diary = tmp_path / "diary.txt"
    diary.write_text("Dear diary,\n")
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:800]) + lines[800][:30])
    page.goto(drop_page(tmp_path))
    page.locator(".p-player").wait_for()
    choose = page.locator("input[type=file]")
    for step in (1, 2):
        choose.set_input_files(diary)
        page.locator(".p-error", has_text="not a minivllm recording").wait_for()
        assert page.locator(".p-error").count() == 1
        page.get_by_label("Step (→)").click()  # the page stays usable
        assert step_shown(page) == step
    choose.set_input_files(cut)
    page.locator(".p-note", has_text="cut off").wait_for()
    assert page.locator(".p-error").count() == 0
    choose.set_input_files(POLICIES)
    page.locator(".p-view").nth(1).wait_for()


def test_without_javascript_the_page_says_what_to_do(browser, tmp_path):
    file = tmp_path / "page.html"
    write_page(file, [BURST])
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "JavaScript" in page.locator("body").inner_text()
    context.close()
