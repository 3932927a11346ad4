"""Imports modules of tools/gpu_report, which is not a package."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from support.tool_modules import TOOLS

FOLDER = TOOLS / "gpu_report"


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], ModuleType]]:
    """Import one of its modules by name, for this test only."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)

    def find(name: str) -> ModuleType:
        if name != "__main__":
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location("gpu_report_main", FOLDER / "__main__.py")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        return module

    yield find
    for name in set(sys.modules) - before:
        if Path(getattr(sys.modules[name], "__file__", None) or "").parent == FOLDER:
            del sys.modules[name]
