"""Every page of the site in a real browser, from file://: phone and desktop, light and dark.

Needs a Chromium on this machine, or its path in MINIVLLM_CHROMIUM; none is downloaded.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from support.docs.built_site import DOCS, moved_pages, pages_of_docs
from support.docs.site_in_chromium import (
    DESKTOP,
    NEEDS_CHROMIUM,
    PHONE,
    Reader,
    chromium,
    find_chromium,
    served,
)

from minivllm.events.recording.recording import Recording
from minivllm.events.state import EngineState

MOST_BYTES_OF_THE_LANDING_PAGE = 500_000

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium(find_chromium()) as browser:
        yield browser


@pytest.fixture(scope="module")
def readers(browser: Browser, site: Path) -> tuple[Reader, Reader]:
    """A reader in the light scheme, and one in the dark scheme."""
    return Reader(browser, site, "light"), Reader(browser, site, "dark")


@pytest.fixture(params=["disk", "http"])
def visitor(request: pytest.FixtureRequest, browser: Browser, site: Path) -> Iterator[Reader]:
    """A reader who has never been here: in a fresh profile, from disk or from a server."""
    with served(site) as address:
        reader = Reader(browser, site, "light", None if request.param == "disk" else address)
        yield reader
        reader.close()


@pytest.mark.parametrize("page", pages_of_docs())
def test_a_page_is_whole_and_readable_for_everyone(page, readers):
    assert [fault for reader in readers for fault in reader.visit(page)] == []


def test_the_pages_of_source_code_are_whole_and_readable(site, readers):
    """One width and one scheme per page.

    axe takes seconds on a long page, so only the shortest page is checked with it, in both schemes.
    """
    light, dark = readers
    pages = sorted((site / "source").rglob("*.html"), key=lambda page: page.stat().st_size)
    assert len(pages) > 20
    addresses = [page.relative_to(site).as_posix() for page in pages]
    assert [
        fault for page in addresses for fault in light.visit(page, widths=(PHONE,), with_axe=False)
    ] == []
    assert [fault for reader in (light, dark) for fault in reader.visit(addresses[0])] == []


@pytest.mark.parametrize("size", [PHONE, DESKTOP], ids=["phone", "desktop"])
def test_search_finds_copy_on_write_from_disk_and_from_a_server(size, visitor):
    reader = visitor
    assert reader.visit("index.html", widths=(size,), with_axe=False) == []
    if size is PHONE:
        reader.page.locator("label[for=__search].md-header__button").click()
    reader.page.locator(".md-search__input").click()
    reader.page.keyboard.type("copy-on-write")
    results = reader.page.locator("a.md-search-result__link")
    results.first.wait_for()
    first = [result.get_attribute("href").partition("?")[0] for result in results.all()[:3]]
    assert any(address.endswith("learn/copy-on-write.html") for address in first), first


def test_a_wide_table_can_be_scrolled_with_the_keyboard_while_it_is_wide(readers):
    page = readers[0].page
    page.set_viewport_size(PHONE)
    readers[0].open("learn/index.html")  # its tables fit a wide window
    box = page.locator(".md-typeset__scrollwrap[tabindex='0']").first
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.activeElement.scrollLeft > 0")
    assert box.evaluate("box => box === document.activeElement && box.scrollLeft > 0")
    page.set_viewport_size({"width": 3000, "height": 900})
    page.wait_for_function("() => !document.querySelector('.md-typeset__scrollwrap[tabindex]')")
    assert page.locator(".md-typeset__scrollwrap[tabindex]").count() == 0


def test_the_landing_page_is_light(visitor):
    """All bytes that a browser loads before the reader does anything, none of them compressed.

    The index of the search is not among them: the page loads it when the search is opened.
    """
    page, loaded = visitor.page, {}
    page.on("response", lambda response: loaded.update({response.url: response.body()}))
    visitor.open("index.html")
    page.locator(".player .p-title").first.wait_for()
    page.wait_for_load_state("networkidle")
    names = [Path(url).name.partition("?")[0] for url in loaded]
    assert {"index.html", "player.js", "shared-prefix.js"} <= set(names)
    sizes = dict(zip(names, map(len, loaded.values()), strict=True))
    assert sum(sizes.values()) < MOST_BYTES_OF_THE_LANDING_PAGE, sizes


@pytest.mark.parametrize("step", [1, 105, 372])
def test_the_player_of_the_landing_page_shows_the_state_that_the_recording_has(step, readers):
    page = readers[0].page
    recording = DOCS / "assets/recordings/shared-prefix.jsonl"
    state: EngineState = Recording(recording).view_at_step(step).state
    readers[0].open("404.html")  # the next address differs from this one by more than its anchor
    readers[0].open(f"index.html#recording=shared-prefix&step={step}")
    player = page.locator(".player")
    expect(player).to_contain_text(f"step {step} of 372")
    used = sum(block.ref_cnt > 0 for block in state.blocks)
    expect(player).to_contain_text(f"{used} of {len(state.blocks)} in use")
    queued = player.locator(".p-queue [data-block]")
    ids = [int(one.get_attribute("data-block")) for one in queued.all()]
    assert ids == state.free_queue
    waiting = player.locator(".p-waiting [data-sequence]")
    assert [one.get_attribute("data-sequence") for one in waiting.all()] == state.waiting
    shares = player.locator(".p-budget [data-sequence]")
    assert [one.get_attribute("data-sequence") for one in shares.all()] == [
        share.seq_id for share in state.scheduled
    ]


@pytest.mark.parametrize("page", [page for page in pages_of_docs() if page.startswith("learn/")])
def test_a_player_opens_at_the_step_that_its_page_claims(page, readers):
    readers[0].open(page)
    readers[0].page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    for player in readers[0].page.locator(".player[data-step]").all():
        player.scroll_into_view_if_needed()  # it loads its recording now
        step = player.get_attribute("data-step")
        expect(player).to_contain_text(re.compile(rf"step {step} of \d+"))


def test_a_page_that_moved_opens_where_its_text_is_now(readers):
    page = readers[0].page
    for old, new in moved_pages().items():
        readers[0].open(old)
        page.wait_for_url(f"**/{new}")
        place = new.partition("#")[2]
        assert not place or page.locator(f"[id='{place}']").count() == 1, (old, new)


@pytest.mark.parametrize("page", ["index.html", "learn/block-tables.html", "use/player.html"])
def test_without_javascript_a_page_says_what_is_missing_and_shows_stills(page, browser, site):
    context = browser.new_context(java_script_enabled=False, viewport=PHONE)
    tab = context.new_page()
    tab.goto(f"{site.as_uri()}/{page}")
    assert "JavaScript" in tab.locator("article").inner_text()
    if page != "use/player.html":
        assert tab.locator("article img").first.evaluate("image => image.naturalWidth") > 0
    assert tab.locator(".p-player").count() == 0
    context.close()


@pytest.mark.parametrize(
    ("old", "place"),
    [
        ("concepts/kv-cache.html#events", "events"),
        ("concepts/scheduler.html#go-on", "read-on"),
        ("exercises/lru.html#hints", "exercise-lru"),
        ("tutorial/10-preemption.html#write-it-yourself", "exercises"),
        ("concepts/kv-cache.html", "in-short"),
    ],
)
def test_a_link_into_a_page_that_moved_opens_the_place_where_its_text_is_now(old, place, readers):
    page = readers[0].page
    page.set_viewport_size(DESKTOP)
    readers[0].open("404.html")
    readers[0].open(old)
    page.wait_for_url(f"**#{place}")
    page.wait_for_load_state("load")
    expect(page.locator(f"[id='{place}']")).to_be_in_viewport()
