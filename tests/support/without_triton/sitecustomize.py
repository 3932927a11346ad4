"""With this folder on PYTHONPATH Python finds no Triton: neither the package nor the record of its
installation.

Python imports a `sitecustomize` before anything else, so nothing can have imported Triton earlier,
and workers that the process starts inherit it. What is left is what an install without Triton has:
`find_spec` answers None, `import` raises ModuleNotFoundError, `importlib.metadata` knows no
version.
"""

import sys
from importlib.machinery import PathFinder


class FindsNoTriton(PathFinder):
    """Python's own finder of installed packages, with one that it does not find."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        return (
            None
            if fullname.partition(".")[0] == "triton"
            else PathFinder.find_spec(fullname, path, target)
        )

    @classmethod
    def find_distributions(cls, *args, **kwargs):
        for found in PathFinder.find_distributions(*args, **kwargs):
            if found.metadata["Name"] != "triton":
                yield found


sys.meta_path[sys.meta_path.index(PathFinder)] = FindsNoTriton
