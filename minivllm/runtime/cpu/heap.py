"""`trim_heap`: return freed memory to the system, which the C library would otherwise keep.

glibc keeps freed pieces of up to 32 MiB for the next `malloc`. After a model of 538 MB is loaded,
these pieces are 64 MB of useless holes. With another allocator (musl, tcmalloc), `trim_heap` does
nothing. A lower threshold of glibc would map and unmap every activation in every step.
"""

import ctypes


def trim_heap() -> None:
    """Return free pages to the system, if the C library can. Takes a few milliseconds."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
