"""Every page of the site in a real browser, from file://: phone and desktop, light and dark.

Needs a Chromium on this machine, or its path in MINIVLLM_CHROMIUM; none is downloaded.
"""

import re
from pathlib import Path

import pytest
from playwright.sync_api import Browser, expect
from support.docs.built_site import pages_of_docs
from support.docs.site_in_chromium import (
    NEEDS_CHROMIUM,
    PHONE,
    Reader,
    one_browser,  # noqa: F401  (a fixture)
    served,
)

pytestmark = NEEDS_CHROMIUM


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


@pytest.mark.parametrize("page", [page for page in pages_of_docs() if page.startswith("learn/")])
def test_a_player_opens_at_the_step_that_its_page_claims(page, readers):
    readers[0].open(page)
    readers[0].page.evaluate("document.querySelectorAll('details').forEach(one => one.open = true)")
    for player in readers[0].page.locator(".player[data-step]").all():
        player.scroll_into_view_if_needed()  # it loads its recording now
        step = player.get_attribute("data-step")
        expect(player).to_contain_text(re.compile(rf"step {step} of \d+"))


@pytest.mark.parametrize("place", ["disk", "server"])
def test_a_question_takes_an_answer_and_the_browser_remembers_it(place, browser, site):
    with served(site) as address:
        reader = Reader(browser, site, "light", None if place == "disk" else address)
        page = reader.page
        reader.open("learn/preemption.html")
        page.get_by_label("Your answer, a number").first.fill("12")
        page.keyboard.press("Enter")
        page.get_by_role("button", name="cleo", exact=True).first.press("Enter")
        reader.open("learn/preemption.html")
        first, second = page.locator(".q-said").all()[:2]
        expect(first).to_have_text("You said 12. A block lasts for four steps.")
        expect(second).to_have_text("Right: cleo.")
        expect(page.locator(".q-progress")).to_contain_text(re.compile(r"^2 of \d+ .*, 1 right"))
        reader.open("learn/index.html")
        expect(page.locator(".md-content .q-mark").first).to_contain_text("2/")
        reader.close()


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
