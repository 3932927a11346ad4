"""Every page of the site in a real browser, from file://: phone and desktop, light and dark.

Needs a Chromium on this machine (or the path of one in MINIVLLM_CHROMIUM); none is downloaded.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from built_site import pages_of_docs
from site_in_chromium import DESKTOP, PHONE, Reader, chromium, find_chromium

pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(
        find_chromium() is None, reason="no chromium or google-chrome on PATH, and none in MINIVLLM_CHROMIUM"
    ),
]


@pytest.fixture(scope="module")
def readers(site: Path) -> Iterator[tuple[Reader, Reader]]:
    """A reader who likes it light, and one who likes it dark."""
    with chromium(find_chromium()) as browser:
        yield Reader(browser, site, "light"), Reader(browser, site, "dark")


@pytest.mark.parametrize("page", pages_of_docs())
def test_a_page_is_whole_and_readable_for_everyone(page: str, readers: tuple[Reader, Reader]) -> None:
    assert [fault for reader in readers for fault in reader.visit(page)] == []
