"""Every page of the site in a real browser, from file://: phone and desktop, light and dark.

Needs a Chromium on this machine, or its path in MINIVLLM_CHROMIUM; none is downloaded.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.docs.built_site import pages_of_docs
from support.docs.site_in_chromium import DESKTOP, PHONE, Reader, chromium, find_chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        find_chromium() is None,
        reason="no chromium or google-chrome on PATH, and none in MINIVLLM_CHROMIUM",
    ),
]


@pytest.fixture(scope="module")
def readers(site: Path) -> Iterator[tuple[Reader, Reader]]:
    """A reader in the light scheme, and one in the dark scheme."""
    with chromium(find_chromium()) as browser:
        yield Reader(browser, site, "light"), Reader(browser, site, "dark")


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
def test_search_finds_copy_on_write_without_a_server(size, readers):
    reader = readers[0]
    assert reader.visit("index.html", widths=(size,), with_axe=False) == []
    if size is PHONE:
        reader.page.locator("label[for=__search].md-header__button").click()
    reader.page.locator(".md-search__input").click()
    reader.page.keyboard.type("copy-on-write")
    results = reader.page.locator("a.md-search-result__link")
    results.first.wait_for()
    first = [result.get_attribute("href").partition("?")[0] for result in results.all()[:3]]
    assert any(address.endswith("concepts/copy-on-write.html") for address in first), first


def test_a_wide_table_can_be_scrolled_with_the_keyboard_while_it_is_wide(readers):
    page = readers[0].page
    page.set_viewport_size(PHONE)
    readers[0].open("performance.html")
    box = page.locator(".md-typeset__scrollwrap[tabindex='0']").first
    box.focus()
    page.keyboard.press("ArrowRight")
    page.wait_for_function("() => document.activeElement.scrollLeft > 0")
    assert box.evaluate("box => box === document.activeElement && box.scrollLeft > 0")
    page.set_viewport_size({"width": 3000, "height": 900})
    page.wait_for_function("() => !document.querySelector('.md-typeset__scrollwrap[tabindex]')")
    assert page.locator(".md-typeset__scrollwrap[tabindex]").count() == 0
