"""The playground in a real browser, over http: Python starts, runs both sides, checks an exercise."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect
from support.docs.site_in_chromium import DESKTOP, NEEDS_CHROMIUM, Reader, chromium, served
from support.patience import SOON
from support.tool_modules import load_tool

from minivllm.lab.playground.methods import find_method
from minivllm.lab.playground.play import play
from minivllm.lessons.checker.catalogue import find_exercise

VICTIM = ("minivllm.core.admission", "FCFSRequestQueue.choose_victim")
pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """The site with Python, served on loopback."""
    fetching = load_tool("site/fetch_pyodide.py")
    try:
        fetching.fetch()
    except SystemExit as error:
        pytest.skip(f"no Pyodide: {error}")
    for name, content in load_tool("site/playground_files.py").files():
        (site / name).parent.mkdir(exist_ok=True)
        (site / name).write_bytes(content)
    with served(site) as address:
        yield address


@pytest.fixture(scope="module")
def reader(site: Path, address: str) -> Iterator[Reader]:
    """A reader for whom Python has started."""
    with chromium() as browser:
        reader = Reader(browser, site, "light", address)
        reader.page.set_viewport_size(DESKTOP)
        reader.page.set_default_timeout(SOON * 1000)
        expect.set_options(timeout=SOON * 1000)
        reader.open("playground.html")
        expect(reader.page.get_by_role("button", name="Run both")).to_be_enabled()
        yield reader


def run_both(reader: Reader) -> None:
    button = reader.page.get_by_role("button", name="Run both")
    button.click()
    expect(button).to_be_enabled()


def shown(reader: Reader, figure: str) -> list[str]:
    return reader.page.locator(f"[data-figure={figure}] td").all_inner_texts()


def edit(reader: Reader, method: tuple[str, str], text: str) -> None:
    reader.page.locator("#pg-method").select_option(":".join(method))
    reader.page.get_by_label("The method's code").fill(text)


def test_both_runs_have_the_figures_that_they_have_without_a_browser(reader, tmp_path):
    traces = json.loads(load_tool("site/playground_files.py").traces())
    run = next(trace["run"] for trace in traces if trace["name"] == "memory-pressure")
    text = find_method(*VICTIM).source.replace("running[-1]", "running[0]")
    change = {"module": VICTIM[0], "name": VICTIM[1], "text": text}
    options = {"num_gpu_blocks_override": 16}
    sides: dict[str, Any] = play({"run": run, "options": options, "edit": change}, tmp_path)

    reader.page.locator("#pg-trace").select_option("memory-pressure")
    edit(reader, VICTIM, text)
    reader.page.get_by_label("Number of blocks").fill("16")
    run_both(reader)
    expected = [sides[name]["figures"] for name in ("original", "yours")]
    assert shown(reader, "steps") == [str(side["steps"]) for side in expected]
    assert shown(reader, "preemptions") == [str(side["preemptions"]) for side in expected]
    assert shown(reader, "ttft_mean_s") == [
        f"{side['ttft_mean_s'] * 1000:.0f} ms" for side in expected
    ]
    assert shown(reader, "kv_waste") == [f"{side['kv_waste'] * 100:.1f} %" for side in expected]
    assert reader.page.locator(".pg-results .p-views > *").count() == 2, "two runs, side by side"


def test_a_thing_to_try_fills_the_form_and_runs_both_sides(reader):
    reader.page.get_by_role("button", name="Another victim").click()
    expect(reader.page.locator("[data-figure=preemptions] td")).to_have_text(["3", "4"])


def test_a_mistake_is_one_sentence_and_its_line_is_marked(reader):
    reader.page.locator("#pg-trace").select_option("memory-pressure")
    edit(reader, VICTIM, "def choose_victim(self, running):\n    return runing[0]\n")
    run_both(reader)
    expect(reader.page.locator(".pg > .pg-trouble")).to_contain_text("NameError in line 2")
    expect(reader.page.locator(".pg-wrong").first).to_have_text("2")


def test_an_exercise_is_checked_in_the_page(reader):
    page = reader.page
    page.locator("#pg-exercise").select_option("slot-mapping")
    editor = page.get_by_label("The exercise's file")
    page.wait_for_function(
        "() => document.querySelectorAll('.pg textarea')[2].value.includes('TODO')"
    )
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".pg-report")).to_contain_text("Nothing is written yet")
    editor.fill(find_exercise("slot-mapping").source)
    page.get_by_role("button", name="Check", exact=True).click()
    expect(page.locator(".pg-report")).to_contain_text("Passed")


def test_without_its_python_the_page_says_how_to_get_it(site, address, reader):
    other = Reader(reader.page.context.browser, site, "light", address)
    other.page.route("**/assets/pyodide/**", lambda route: route.fulfill(status=404))
    other.open("playground.html")
    expect(other.page.locator(".pg > .pg-trouble")).to_contain_text("make docs")
    other.close()
