"""What `import kernels` gives to a process that was started in the root of this repository.

This folder is at the root, so such a process finds it as the top-level package `kernels`. That name
is Hugging Face's: `transformers` imports a package so called where there is one. So under that name
we step aside.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def give_way() -> None:
    """Put the real package `kernels` in our place; the import system hands that one out.

    Where there is none: an empty module, which is what `transformers` takes for "not installed".
    """
    root = Path(__file__).resolve().parents[1]
    # "" is the current folder
    elsewhere = [folder for folder in sys.path if Path(folder).resolve() != root]
    spec = PathFinder.find_spec("kernels", elsewhere)
    if spec is None or spec.loader is None:
        sys.modules["kernels"] = module_from_spec(ModuleSpec("kernels", loader=None))
        return
    sys.modules["kernels"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
