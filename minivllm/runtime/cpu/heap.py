"""`trim_heap`: return memory to the system that the C library keeps after it was freed.

glibc keeps freed blocks of up to 32 MiB for the next `malloc`. After a model of 538 MB is loaded,
these are 64 MB of useless holes. With another allocator (musl, tcmalloc) nothing happens. Changing
glibc's threshold instead would map and unmap every activation in every step.
"""

import ctypes


def trim_heap() -> None:
    """Return free pages to the system, if the C library can. This takes a few milliseconds."""
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
