"""`another_engine`: imports the engine a second time, so that changed code takes part.

`from minivllm.core.block_pool import BlockPool` copies a name. If one module of the engine changes,
all others must be imported again. A new process would do that, but a browser has none, and a new
interpreter takes seconds. Running functions keep their own modules alive. Inside of the `with`,
they import the engine by name to get the new one.
"""

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType


@contextmanager
def another_engine() -> Iterator[None]:
    """Inside, every module of minivllm is imported anew; afterwards, the old ones are back."""
    old = _take_out()
    importlib.invalidate_caches()
    try:
        yield
    finally:
        _take_out()
        sys.modules.update(old)


def _take_out() -> dict[str, ModuleType]:
    names = [name for name in sys.modules if name.partition(".")[0] == "minivllm"]
    return {name: sys.modules.pop(name) for name in names}
