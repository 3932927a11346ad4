"""Paged attention in its slow, obvious form, the oracle of every fast one; installed as `minivllm.kernels`.

Knows nothing of sequences, schedulers or models.

The easy thing to get wrong is the name. This folder stands at the root of the repository, so a process
started there finds it as the top-level package `kernels`, and that name is Hugging Face's: `transformers`
imports a package so called where there is one. So under that name we step aside: the real package takes our
place, or, where there is none, an empty module, which is what `transformers` takes for "not installed".
"""

import sys


def _give_way() -> None:
    """Put the package that should answer to `kernels` in our place; the import system hands that one out."""
    from importlib.machinery import ModuleSpec, PathFinder
    from importlib.util import module_from_spec
    from pathlib import Path

    root = Path(__file__).resolve().parents[1]
    elsewhere = [folder for folder in sys.path if Path(folder).resolve() != root]  # "" is the current folder
    spec = PathFinder.find_spec("kernels", elsewhere)
    if spec is None or spec.loader is None:
        sys.modules["kernels"] = module_from_spec(ModuleSpec("kernels", loader=None))
        return
    sys.modules["kernels"] = module = module_from_spec(spec)
    spec.loader.exec_module(module)


if __name__ == "kernels":
    _give_way()
