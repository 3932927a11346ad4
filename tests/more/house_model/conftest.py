"""Modules of tools/house_model, which are run from their folder and are no package."""

import importlib
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.tool_modules import TOOLS

FOLDER = TOOLS / "house_model"


@pytest.fixture(scope="session")
def tool() -> Iterator[Callable[[str], ModuleType]]:
    """Imports one of its modules by name, for the tests of this folder alone."""
    before = set(sys.modules)
    sys.path.insert(0, str(FOLDER))
    yield importlib.import_module
    sys.path.remove(str(FOLDER))
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == FOLDER:
            del sys.modules[name]
