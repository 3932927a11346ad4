"""The site, built once per pytest worker."""

from pathlib import Path

import pytest
from support.docs.built_site import DOCS, ROOT, Build, build


@pytest.fixture(scope="session")
def our_build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    def pages() -> dict[Path, int]:
        return {page: page.stat().st_mtime_ns for page in DOCS.rglob("*.md")}

    before = pages()
    built = build(ROOT / "mkdocs.yml", tmp_path_factory.mktemp("site"))
    assert pages() == before, (
        "the hook makes a page for each file that is linked: for the site, and not in docs/"
    )
    return built


@pytest.fixture(scope="session")
def site(our_build: Build) -> Path:
    if our_build.status:
        pytest.fail(f"the site does not build:\n{our_build.said}")
    return our_build.site
