"""A command of tools/ as a module: tools are no package, so none of them can be imported by its
name.

It is loaded anew at each call, and not remembered in `sys.modules`: what a test changes in it stays
with that test.
"""

import importlib.util
from pathlib import Path
from types import ModuleType

TOOLS = Path(__file__).parents[2] / "tools"


def load_tool(path: str) -> ModuleType:
    """The module at this path below tools/, like `site/make_pages.py`."""
    spec = importlib.util.spec_from_file_location(Path(path).stem, TOOLS / path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
