"""A full disk without root: the system refuses writes beyond a file size."""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

REASON = "File too large"  # The system's error message.


@contextmanager
def files_no_larger_than(num_bytes: int) -> Iterator[None]:
    """Limit every file that this process writes to `num_bytes`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN, (
        "Python must ignore SIGXFSZ, so that write() fails"
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
