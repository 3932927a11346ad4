"""The site, built once per pytest worker."""

from pathlib import Path

import pytest
from support.docs.built_site import Build, build


@pytest.fixture(scope="session")
def our_build(tmp_path_factory: pytest.TempPathFactory) -> Build:
    return build(tmp_path_factory.mktemp("site"))


@pytest.fixture(scope="session")
def site(our_build: Build) -> Path:
    if our_build.status:
        pytest.fail(f"the site does not build:\n{our_build.said}")
    return our_build.site
