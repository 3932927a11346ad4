"""`trim_heap`: return freed memory to the system, which the C library would otherwise keep.

glibc keeps freed pieces of up to 32 MiB for the next `malloc`, in holes that nothing later may fit
into: beside a model of 538 MB, 64 MB.
"""

import ctypes
import sys


def trim_heap() -> None:
    """Return the holes of all heaps, if the C library is glibc. Takes a few milliseconds."""
    malloc_trim = (
        getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
    )
    if malloc_trim is not None:
        malloc_trim(0)
