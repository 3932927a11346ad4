"""The benches set the number of torch's threads for the whole process, which must not reach the
tests that come after.
"""

from support.model.one_thread import one_thread

__all__ = ["one_thread"]
