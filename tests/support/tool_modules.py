"""Loads a command of tools/ as a module, since tools/ is not a package.

Each call loads a new module, outside `sys.modules`, so a test can patch it freely.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).parents[2] / "tools"


def load_tool(path: str) -> ModuleType:
    """The module at this path below tools/, such as `site/make_pages.py`."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, TOOLS / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
