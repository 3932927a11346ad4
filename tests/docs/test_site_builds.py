"""The site builds strictly, has every page, and loads nothing from other hosts."""

import re

from support.docs.built_site import DOCS, moved_pages, pages_of_docs, settings

# What a browser loads without a click. Material's own script has addresses for mermaid and
# Twitter's emoji, but loads them only on pages with a diagram, and we have none.
LOADS = re.compile(
    r"""(?:url\(\s*["']?|@import\s+["']|fetch\(\s*["']|"""
    r"""importScripts\(\s*["'])((?:https?:)?//[^"')\s]+)"""
    r"""|<(?!a\b|link rel="(?:canonical|prev|next|alternate)")"""
    r"""\w[^>]*\b(?:src|srcset|poster|data|href)="((?:https?:)?//[^"]+)"""
)


def test_the_site_builds_strictly_and_has_every_page_of_the_docs(our_build):
    assert our_build.status == 0, our_build.said
    assert [page for page in pages_of_docs() if not (our_build.site / page).is_file()] == []
    assert (our_build.site / "source").is_dir()
    assert settings()["strict"] is True
    # Mermaid's script would come from another host.
    assert [page for page in DOCS.rglob("*.md") if "```mermaid" in page.read_text("utf-8")] == []


def test_no_file_of_the_site_is_loaded_from_another_host(site):
    files = [file for file in site.rglob("*") if file.suffix in (".html", ".css", ".js", ".svg")]
    found = {file: LOADS.findall(file.read_text("utf-8", errors="replace")) for file in files}
    assert {str(file): addresses for file, addresses in found.items() if addresses} == {}
    assert LOADS.search('<img alt="" src="https://a.b/c.png">')
    assert not LOADS.search('<a class="x" href="https://a.b">')


def test_search_works_from_a_file_with_our_own_worker(site):
    """Browsers start no worker under file://, so its replacement must not need a server either."""
    assert (site / "search/search_index.js").is_file()
    assert 'src="assets/iframe-worker.js"' in (site / "index.html").read_text(encoding="utf-8")


def test_the_site_has_five_tabs_and_at_most_fifty_pages():
    assert [name for tab in settings()["nav"] for name in tab] == [
        "Start",
        "Learn",
        "Teach",
        "Use",
        "Inside",
    ]
    assert len(pages_of_docs()) <= 50


def test_a_page_that_moved_leads_to_a_page_and_a_place_that_exist(site):
    moved = moved_pages()
    assert len(moved) > 100
    for old, new in moved.items():
        page, _, place = new.partition("#")
        assert f"url={'../' * old.count('/')}{new}" in (site / old).read_text(encoding="utf-8")
        text = (site / page).read_text(encoding="utf-8")
        assert not place or f'id="{place}"' in text, (old, new)
