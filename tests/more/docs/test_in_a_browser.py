"""Every page of the site in a real browser, from file://: phone and desktop, light and dark.

Needs a Chromium on this machine, or its path in MINIVLLM_CHROMIUM; none is downloaded.
"""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from support.docs.built_site import DOCS, moved_pages, pages_of_docs
from support.docs.site_in_chromium import NEEDS_CHROMIUM, PHONE, Reader, chromium, served

from minivllm.events.recording.recording import Recording
from minivllm.events.state import EngineState

pytestmark = NEEDS_CHROMIUM


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def readers(browser: Browser, site: Path) -> tuple[Reader, Reader]:
    """A reader in the light scheme, and one in the dark scheme."""
    return Reader(browser, site, "light"), Reader(browser, site, "dark")


@pytest.mark.parametrize("page", pages_of_docs())
def test_a_page_is_whole_and_readable_for_everyone(page, readers):
    assert [fault for reader in readers for fault in reader.visit(page)] == []


@pytest.mark.parametrize("place", ["disk", "server"])
def test_search_finds_copy_on_write_from_disk_and_from_a_server(place, browser, site):
    with served(site) as address:
        reader = Reader(browser, site, "light", None if place == "disk" else address)
        assert reader.visit("index.html", with_axe=False) == []
        reader.page.locator(".md-search__input").click()
        reader.page.keyboard.type("copy-on-write")
        results = reader.page.locator("a.md-search-result__link")
        results.first.wait_for()
        first = [result.get_attribute("href").partition("?")[0] for result in results.all()[:3]]
        assert any(address.endswith("learn/copy-on-write.html") for address in first), first
        reader.close()


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
