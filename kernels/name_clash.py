"""Let Hugging Face's package `kernels` take our place if we are imported under that name.

A process that starts in the root of this repository finds this folder as the top-level package
`kernels`. `transformers` imports a package of that name if it finds one, and expects the one from
Hugging Face.
"""

import sys
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import module_from_spec
from pathlib import Path


def give_way() -> None:
    """Put the real package `kernels` into `sys.modules`.

    If that package is not installed, put an empty module; `transformers` treats an empty module as
    "not installed".
    """
    root = Path(__file__).resolve().parents[1]
    # "" means the current folder
    elsewhere = [folder for folder in sys.path if Path(folder).resolve() != root]
    spec = PathFinder.find_spec("kernels", elsewhere)
    if spec is None or spec.loader is None:
        sys.modules["kernels"] = module_from_spec(ModuleSpec("kernels", loader=None))
        return
    sys.modules["kernels"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)
