"""The player in Chromium, from file://: it steps, seeks, links, compares and survives bad files."""

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from axe_playwright_python.base import AXE_SCRIPT
from playwright.sync_api import Browser, Page
from support.docs.firefox import END, HOME, RIGHT, find_firefox, firefox
from support.docs.site_in_chromium import _AXE, _OVERFLOW, NEEDS_CHROMIUM, chromium, find_chromium

from minivllm.cli.recordings.bundle import player_script
from minivllm.cli.recordings.web import script_of, write_page
from minivllm.events.recording.recording import Recording
from minivllm.text import short_name

RECORDINGS = Path(__file__).parents[2] / "docs/assets/recordings"
BURST = RECORDINGS / "burst.jsonl"
POLICIES = [
    RECORDINGS / f"policies/{name}.jsonl" for name in ("static+contiguous", "continuous+paged")
]

_STATE = r"""(() => {
    const all = (css) => [...document.querySelectorAll(css)]
    const names = (css) => all(css).map(one => one.textContent)
    return [Number(/step (\d+)/.exec(document.querySelector(".p-step").textContent)[1]),
        names(".p-slot .p-name").sort(), names(".p-waiting .p-name"),
        Number(/(\d+) of/.exec(document.querySelector(".p-panel-blocks .p-title").textContent)[1]),
        all(".p-block.p-held, .p-block.p-shared").length, all(".p-block.p-cached").length]
})()"""

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(find_chromium()) as browser:
        yield browser


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(reduced_motion="reduce", viewport={"width": 1200, "height": 900})
    page, faults = context.new_page(), []
    page.on("console", lambda said: said.type == "error" and faults.append(said.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    page.on("request", lambda one: one.url.startswith("http") and faults.append(one.url))
    yield page
    context.close()
    assert faults == []


def open_recording(
    page: Page, folder: Path, *paths: Path, step: int | None = None, end: str = ""
) -> None:
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
    open_recording(page, tmp_path, RECORDINGS / "memory-pressure.jsonl", step=1)
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
    open_recording(page, tmp_path, BURST, end="#recording=burst&step=41")
    page.wait_for_function("() => document.querySelector('.p-step').textContent.includes(' 41 ')")
    page.locator(".p-player").focus()
    page.keyboard.press("ArrowRight")
    page.get_by_label("Link to this step").click()
    assert page.evaluate("location.hash") == "#recording=burst&step=42"


def test_two_recordings_run_on_one_clock(page, tmp_path):
    open_recording(page, tmp_path, *POLICIES, step=60)
    recordings = [Recording(path) for path in POLICIES]
    found = re.search(r"([\d.]+) s: steps (\d+) and (\d+)", page.locator(".p-step").inner_text())
    for recording, step in zip(recordings, (int(found[2]), int(found[3])), strict=True):
        *_, last = recording.events(0, recording.step_end(step))
        assert last.t - recording.header.mono <= float(found[1]) + 0.005
        recording.close()
    assert page.locator(".p-view").count() == 2


def test_playing_goes_on_by_itself_and_space_stops_it(page, tmp_path):
    open_recording(page, tmp_path, BURST, step=3)
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
    open_recording(page, tmp_path, BURST, step=41)
    page.locator(".p-block").nth(16).click()
    assert "Block 16 is held by dan alone" in page.locator(".p-why").inner_text()
    page.locator(".p-waiting [data-sequence]").nth(1).click()
    assert "june is number 2 in the queue" in page.locator(".p-why").inner_text()
    page.locator(".p-block").nth(16).hover()  # pointing asks, too, until the pointer leaves
    assert "Block 16 is held by dan alone" in page.locator(".p-why").inner_text()
    page.locator(".p-controls").hover()
    assert "june is number 2 in the queue" in page.locator(".p-why").inner_text()
    assert "step 41" in page.locator("[aria-live]").inner_text().lower()


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1200])
@pytest.mark.parametrize("paths", [[BURST], POLICIES], ids=["one", "two"])
def test_the_player_fits_and_everyone_can_read_it(browser, tmp_path, paths, width, scheme):
    page = browser.new_page(
        color_scheme=scheme, viewport={"width": width, "height": 800}, reduced_motion="reduce"
    )
    open_recording(page, tmp_path, *paths, step=41)
    page.evaluate(AXE_SCRIPT)
    for _ in ("nothing selected", "a sequence selected"):
        assert page.evaluate(_OVERFLOW) is None
        assert page.evaluate(_AXE) == []
        page.locator(".p-slot .p-name").first.click()
    page.close()


def test_a_selected_sequence_stands_out_in_the_whole_map(page, tmp_path):
    open_recording(page, tmp_path, BURST, step=41)
    page.locator(".p-slot .p-name").first.click()
    chosen = page.locator(".p-block.p-chosen").count()
    assert 0 < chosen < page.locator(".p-block").count()
    assert page.locator(".p-block.p-dim").count() == page.locator(".p-block").count() - chosen
    page.keyboard.press("Escape")
    assert page.locator(".p-block:is(.p-dim, .p-chosen)").count() == 0


@pytest.mark.parametrize(
    ("asked", "step", "said"),
    [
        ("12", 12, ""),
        ("b16", 41, "Block 16 is held by dan alone"),
        ("june", 41, "june is number 2 in the queue"),
        ("b99999", 41, "There is no block"),
        ("nobody", 41, "nobody is not known"),
    ],
)
def test_the_key_g_goes_to_a_step_a_request_or_a_block(page, tmp_path, asked, step, said):
    open_recording(page, tmp_path, BURST, step=41)
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
    newer = tmp_path / "newer.jsonl"
    newer.write_bytes(json.dumps(json.loads(lines[0]) | {"version": 7}).encode() + b"\n" + lines[1])
    diary = tmp_path / "diary.txt"
    diary.write_text("Dear diary,\n")
    huge = tmp_path / "huge.jsonl"
    with huge.open("wb") as file:
        file.truncate(200_000_000)
    cut = tmp_path / "cut.jsonl"
    cut.write_bytes(b"".join(lines[:800]) + lines[800][:30])
    page.goto(drop_page(tmp_path))
    page.locator(".p-player").wait_for()
    choose = page.locator("input[type=file]")
    for path, said in ((diary, "not a minivllm recording"), (newer, "version 7"), (huge, "larger")):
        choose.set_input_files(path)
        page.locator(".p-error", has_text=said).wait_for()
        assert page.locator(".p-error").count() == 1
        page.get_by_label("Step (→)").click()  # the page stays usable
    assert step_shown(page) == 3
    choose.set_input_files(cut)
    page.locator(".p-note", has_text="cut off").wait_for()
    assert page.locator(".p-error").count() == 0
    choose.set_input_files(POLICIES)
    page.locator(".p-view").nth(1).wait_for()


def test_a_dropped_file_plays_and_a_bad_one_gets_a_sentence(page, tmp_path):
    page.goto(drop_page(tmp_path))
    page.locator(".p-player").wait_for()
    good = POLICIES[1].read_text()
    drop(page, "diary.txt", "Dear diary,\n")
    page.locator(".p-error", has_text="not a minivllm recording").wait_for()
    drop(page, "newer.jsonl", good.replace('{"ev":"meta"', '{"ev":"meta","version":7', 1))
    page.locator(".p-error", has_text="version 7").wait_for()
    drop(page, "huge.jsonl", "x" * 1024, times=200 * 1024)
    page.locator(".p-error", has_text="larger").wait_for()
    assert page.locator(".p-error").count() == 1
    page.get_by_label("Step (→)").click()
    assert step_shown(page) == 1  # still the recording from before
    drop(page, "yours.jsonl", good[: len(good) // 2])
    page.locator(".p-note", has_text="cut off").wait_for()
    drop(page, "yours.jsonl", good)
    page.locator(".p-note").wait_for(state="detached")
    assert page.locator(".p-error").count() == 0
    assert page.get_by_label("Player of yours.jsonl").count() == 1
    page.keyboard.press("ArrowRight")


def drop(page: Page, name: str, text: str, times: int = 1) -> None:
    """Drop a file on the page, next to the player."""
    page.locator("body").evaluate(
        """(body, [name, text, times]) => {
            const data = new DataTransfer()
            data.items.add(new File(new Array(times).fill(text), name))
            for (const kind of ["dragover", "drop"]) body.dispatchEvent(new DragEvent(kind,
                {bubbles: true, cancelable: true, dataTransfer: data}))
        }""",
        [name, text, times],
    )


def test_a_finger_steps_seeks_and_asks_why(browser, tmp_path):
    context = browser.new_context(
        has_touch=True, is_mobile=True, viewport={"width": 390, "height": 844}
    )
    page = context.new_page()
    open_recording(page, tmp_path, BURST, step=41)
    page.get_by_label("Step (→)").tap()
    assert step_shown(page) == 42
    page.get_by_label("Step back (←)").tap()
    page.locator(".p-block").nth(16).tap()
    assert "Block 16 is held by dan alone" in page.locator(".p-why").inner_text()
    bar = page.locator(".p-slider").bounding_box()
    middle = bar["y"] + bar["height"] / 2
    finger = context.new_cdp_session(page)
    for kind, share in (("touchStart", 0.2), ("touchMove", 0.4), ("touchMove", 0.8)):
        point = {"x": bar["x"] + share * bar["width"], "y": middle}
        finger.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": [point]})
    finger.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})
    last = Recording(BURST).last_step
    page.wait_for_function(
        "([from, to]) => { const step = Number(/step (\\d+)/.exec("
        "document.querySelector('.p-step').textContent)[1]); return from < step && step < to }",
        arg=[0.7 * last, 0.9 * last],
    )
    context.close()


@pytest.mark.skipif(find_firefox() is None, reason="no firefox, and none in MINIVLLM_FIREFOX")
def test_firefox_plays_and_shows_every_step_of_the_recording(tmp_path):
    path, file = RECORDINGS / "memory-pressure.jsonl", tmp_path / "page.html"
    write_page(file, [path], 1)
    recording = Recording(path)
    with firefox() as reader:
        reader.open(file.as_uri())
        reader.wait_for("document.querySelector('.p-player') !== null")
        reader.run("document.querySelector('.p-player').focus()")
        for step in (1, 2, 3, 4, 5):
            assert reader.run(_STATE) == [step, *state_of(recording, step).values()]
            reader.press(RIGHT)
        reader.press(END)
        end = state_of(recording, recording.last_step)
        assert reader.run(_STATE) == [recording.last_step, *end.values()]
        reader.press(HOME)
        reader.press(" ")
        reader.wait_for(f"{_STATE}[0] > 2")
        reader.press(" ")
    recording.close()


def test_without_javascript_the_page_says_what_to_do(browser, tmp_path):
    file = tmp_path / "page.html"
    write_page(file, [BURST])
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(file.as_uri())
    assert "JavaScript" in page.locator("body").inner_text()
    context.close()
