"""The site builds strictly, asks no other host for anything, and a page that is broken does not get through."""

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from support.docs.built_site import DOCS, ROOT, Build, build, pages_of_docs, settings, small_configuration

REMOTE = re.compile(r"^(?:https?:)?//")
# Material's own script knows where mermaid and Twitter's emoji lie; it asks for them only on pages with a diagram, and we have none.
LOADS = re.compile(
    r"""(?:url\(\s*["']?|@import\s+["']|fetch\(\s*["']|importScripts\(\s*["'])((?:https?:)?//[^"')\s]+)"""
)


class _Loads(HTMLParser):
    """Addresses that a browser asks for by itself while it shows a page; what one must click on is none of them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        named = {key: value or "" for key, value in attrs}
        self.found += [named[key] for key in ("src", "srcset", "poster", "data") if key in named]
        if tag == "link" and named.get("rel") not in ("canonical", "prev", "next", "alternate"):
            self.found.append(named.get("href", ""))
        if tag in ("image", "use"):
            self.found += [named[key] for key in ("href", "xlink:href") if key in named]


def remote_loads(file: Path) -> list[str]:
    """What a file of the site would load from another host."""
    text = file.read_text(encoding="utf-8", errors="replace")
    found = LOADS.findall(text)
    if file.suffix in (".html", ".svg"):
        page = _Loads()
        page.feed(text)
        found += [address for address in page.found if REMOTE.match(address)]
    return found


def test_the_site_builds_strictly_and_has_every_page_of_the_docs(our_build: Build) -> None:
    assert our_build.status == 0, our_build.said
    assert [page for page in pages_of_docs() if not (our_build.site / page).is_file()] == []


def test_no_file_of_the_site_is_loaded_from_another_host(site: Path) -> None:
    files = [file for file in site.rglob("*") if file.suffix in (".html", ".css", ".js", ".svg")]
    remote = {str(file.relative_to(site)): found for file in files if (found := remote_loads(file))}
    assert remote == {}


def test_search_works_from_a_file_since_its_worker_is_our_own(site: Path) -> None:
    """A browser starts no worker under file://; what stands in for it must not come from a server either."""
    assert (site / "search/search_index.js").is_file()
    assert 'src="assets/iframe-worker.js"' in (site / "index.html").read_text(encoding="utf-8")


def test_no_page_draws_a_diagram_with_a_script_from_elsewhere() -> None:
    assert [str(page.relative_to(DOCS)) for page in DOCS.rglob("*.md") if "```mermaid" in page.read_text("utf-8")] == []


@pytest.mark.parametrize(
    "text",
    ['<img src="//a.b/c.png">', '<link rel="preconnect" href="https://a.b">', "<style>p{background:url(https://a.b/c)}</style>",
     "<style>@import 'https://a.b/c.css'</style>", "<script>fetch('https://a.b/c')</script>"],
)  # fmt: skip
def test_whatever_loads_from_elsewhere_is_seen(text: str, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(f'<a href="https://a.b/">may be clicked on</a><img src="here.png">{text}', encoding="utf-8")
    assert len(remote_loads(page)) == 1


WHOLE = {"index.md": "# Home\n\n[other](other.md#part)\n", "other.md": "# Other\n\n## Part\n\n[home](index.md)\n"}
BROKEN = {
    "a dead link": ("[gone](gone.md)", "gone.md"),
    "a dead anchor": ("[gone](other.md#gone)", "#gone"),
    "a missing picture": ("![gone](gone.svg)", "gone.svg"),
    "an absolute link": ("[root](/other.html)", "absolute link"),
    "a source file that is gone": ("[code](../minivllm/gone.py)", "minivllm/gone.py"),
    "a name that is gone from the source": ("[code](../minivllm/clock.py#Gone.name)", "there is no such name"),
}


def test_a_whole_site_with_our_rules_builds(tmp_path: Path) -> None:
    pages = WHOLE | {"index.md": WHOLE["index.md"] + "\n[code](../minivllm/clock.py#VirtualClock)\n"}
    built = build(small_configuration(tmp_path, pages), tmp_path / "site")
    assert built.status == 0, built.said


@pytest.mark.parametrize("fault", BROKEN)
def test_a_broken_page_fails_the_build_and_is_named(fault: str, tmp_path: Path) -> None:
    line, named = BROKEN[fault]
    pages = WHOLE | {"index.md": f"{WHOLE['index.md']}\n{line}\n"}
    built = build(small_configuration(tmp_path, pages), tmp_path / "site")
    assert built.status != 0
    assert named in built.said and "index.md" in built.said


def test_a_page_that_is_not_in_the_navigation_fails_the_build(tmp_path: Path) -> None:
    configuration = small_configuration(tmp_path, WHOLE | {"lost.md": "# Lost\n"}, nav=list(WHOLE))
    built = build(configuration, tmp_path / "site")
    assert built.status != 0
    assert "lost.md" in built.said


def test_our_settings_are_strict_and_ask_for_no_fonts() -> None:
    ours = settings()
    assert ours["strict"] is True
    assert ours["theme"]["font"] is False
    assert set(ours["validation"]) == {"omitted_files", "absolute_links", "unrecognized_links", "anchors"}


def test_the_build_writes_nothing_among_the_pages_that_it_reads(tmp_path: Path) -> None:
    """The hook makes a page for each file that is linked: for the site, and not in docs/."""

    def pages() -> dict[Path, int]:
        return {page: page.stat().st_mtime_ns for page in DOCS.rglob("*.md")}

    before = pages()
    assert build(ROOT / "mkdocs.yml", tmp_path / "site").status == 0
    assert (tmp_path / "site/source").is_dir()
    assert pages() == before
