"""The site builds strictly, has every page and public name, and loads nothing from other hosts."""

import re

from support.docs.built_site import pages_of_docs, settings

import minivllm

# What a browser loads without a click. Material's own script has addresses for mermaid and
# Twitter's emoji, but loads them only on pages with a diagram, and we have none.
LOADS = re.compile(
    r"""(?:url\(\s*["']?|@import\s+["']|fetch\(\s*["']|"""
    r"""importScripts\(\s*["'])((?:https?:)?//[^"')\s]+)"""
    r"""|<(?!a\b|link rel="(?:canonical|prev|next|alternate)")"""
    r"""\w[^>]*\b(?:src|srcset|poster|data|href)="((?:https?:)?//[^"]+)"""
)


def test_the_site_builds_strictly_and_has_every_page_of_the_docs(our_build):
    """The build fails on a link without a target, in the docs or in the source."""
    assert our_build.status == 0, our_build.said
    assert [page for page in pages_of_docs() if not (our_build.site / page).is_file()] == []
    assert len(list((our_build.site / "source").rglob("*.html"))) > 20
    assert settings()["strict"] is True


def test_no_file_of_the_site_is_loaded_from_another_host(site):
    files = [file for file in site.rglob("*") if file.suffix in (".html", ".css", ".js", ".svg")]
    found = {file: LOADS.findall(file.read_text("utf-8", errors="replace")) for file in files}
    assert {str(file): addresses for file, addresses in found.items() if addresses} == {}
    assert LOADS.search('<img alt="" src="https://a.b/c.png">')
    # Browsers start no worker under file://, so our own replacement must not need a server.
    assert 'src="assets/iframe-worker.js"' in (site / "index.html").read_text(encoding="utf-8")


def test_the_reference_shows_every_public_class_and_method(site):
    page = (site / "use/api.html").read_text(encoding="utf-8")
    for name in minivllm.__all__:
        cls = getattr(minivllm, name)
        members = [member for member in vars(cls) if not member.startswith("_") and cls.__doc__]
        whole = f"{cls.__module__}.{name}"
        shown = [f'id="{path}"' in page for path in (whole, *(f"{whole}.{m}" for m in members))]
        assert all(shown), (name, members, shown)
