"""A disk that fills up, for tests that are not root: the system itself refuses what lies behind so
many bytes of a file.
"""

import resource
import signal
from collections.abc import Iterator
from contextlib import contextmanager

REASON = "File too large"
"""What the system says then."""


@contextmanager
def files_no_larger_than(num_bytes: int) -> Iterator[None]:
    """Inside, this process can write no file beyond `num_bytes`."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    assert signal.getsignal(signal.SIGXFSZ) is signal.SIG_IGN, (
        "Python ignores it, so that write() fails instead"
    )
    resource.setrlimit(resource.RLIMIT_FSIZE, (num_bytes, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
