"""With this folder on PYTHONPATH, Python finds neither Triton nor its installation record.

Python imports `sitecustomize` before anything else, and worker processes inherit it. As in an
install without Triton, `find_spec` returns None, `import` raises ModuleNotFoundError, and
`importlib.metadata` has no version.
"""

import sys
from importlib.machinery import PathFinder


class FindsNoTriton(PathFinder):
    """The standard finder of installed packages, without Triton."""

    @classmethod
    def find_spec(cls, fullname, path=None, target=None):
        is_triton = fullname.partition(".")[0] == "triton"
        return None if is_triton else PathFinder.find_spec(fullname, path, target)

    @classmethod
    def find_distributions(cls, *args, **kwargs):
        for found in PathFinder.find_distributions(*args, **kwargs):
            if found.metadata["Name"] != "triton":
                yield found


sys.meta_path[sys.meta_path.index(PathFinder)] = FindsNoTriton
