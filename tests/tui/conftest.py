"""Fixtures for tests of the dashboard: runs with scripted answers."""

import pytest
from support.tui.stages import ask, beams, drafts, memory_pressure, samples, shared_prefix, stage


@pytest.fixture
def scenario(request: pytest.FixtureRequest):
    """The run that an indirect parameter names; it has not begun."""
    return request.getfixturevalue(request.param)
