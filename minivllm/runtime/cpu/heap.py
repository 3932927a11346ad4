"""`trim_heap`: give back to the system what the C library keeps of memory that was freed.

glibc keeps freed blocks of up to 32 MiB for the next `malloc`, and after a model has been loaded
nobody asks for such blocks again: 64 MB of holes beside a model of 538. Where the allocator is
another one (musl, tcmalloc) nothing happens.

Easy to get wrong: to raise or fix glibc's threshold instead. Then every activation of every step
would be mapped and unmapped anew, and the time of a step would pay for the memory of a load.
"""

import ctypes


def trim_heap() -> None:
    """Return free pages to the system, where the C library can. Takes a few milliseconds: for rare
    moments.
    """
    malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if malloc_trim is not None:
        malloc_trim(0)
