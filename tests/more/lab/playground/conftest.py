"""The playground's traces, as the site has them."""

import json
from typing import Any

import pytest
from support.tool_modules import load_tool


@pytest.fixture(scope="session")
def traces() -> dict[str, dict[str, Any]]:
    found = json.loads(load_tool("site/playground_files.py").traces())
    return {trace["name"]: trace for trace in found}


@pytest.fixture
def pressure(traces) -> dict[str, Any]:
    """Four stories in a memory that is too small for them."""
    return traces["memory-pressure"]["run"]
