"""The site, built once for all tests of a worker (two seconds)."""

from pathlib import Path

import pytest
from support.docs.built_site import ROOT, Build, build


@pytest.fixture(scope="session")
def our_build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return build(ROOT / "mkdocs.yml", tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def site(our_build: Build) -> Path:
    """The folder of the built site."""
    if our_build.status:
        pytest.fail(f"the site does not build:\n{our_build.said}")
    return our_build.site
