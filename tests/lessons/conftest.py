"""Fixtures for the tests of scenarios."""

import pytest
from played_scenarios import MODELS


@pytest.fixture(scope="module", params=MODELS)
def model(request) -> str:
    return request.param
