"""Return freed memory to the system, which the C library would otherwise keep.

glibc keeps freed pieces of up to 32 MiB for the next `malloc`. After a model of 538 MB is loaded,
these pieces are 64 MB of useless holes. A lower threshold of glibc would map and unmap every
activation in every step. With another allocator (musl, tcmalloc), both functions do nothing.

Each thread has a heap of its own:

    | used | hole | used | hole | used |        free end       |
             trim_heap     trim_heap         trim_thread_heap
"""

import ctypes
import threading

_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
"""Options of glibc's `mallopt`."""
_LARGEST_MMAP_THRESHOLD = 32 << 20
"""glibc raises this option by itself up to this value, and the other one up to twice the value."""
_LARGE_FREE = 100_000
_one_at_a_time = threading.Lock()


def trim_heap() -> None:
    """Return the holes of all heaps, if the C library can. Takes a few milliseconds."""
    libc = ctypes.CDLL(None)
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)


def trim_thread_heap() -> None:
    """Return the free end of the calling thread's heap, which can be 64 MiB, if it is glibc's.

    `malloc_trim` leaves it alone. glibc looks at it only after a large `free` in this heap. The two
    options are those of the whole process, so threads take turns.
    """
    libc = ctypes.CDLL(None)
    if not hasattr(libc, "gnu_get_libc_version"):
        return
    libc.malloc.restype, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
    with _one_at_a_time:
        libc.mallopt(_M_TRIM_THRESHOLD, 1 << 20)
        libc.free(libc.malloc(_LARGE_FREE))
        # After `mallopt`, glibc no longer raises the two options, so set them to the largest values.
        libc.mallopt(_M_TRIM_THRESHOLD, 2 * _LARGEST_MMAP_THRESHOLD)
        libc.mallopt(_M_MMAP_THRESHOLD, _LARGEST_MMAP_THRESHOLD)
