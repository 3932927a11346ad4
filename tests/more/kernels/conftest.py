"""Fixtures of the kernel tests."""

from support.model.one_thread import one_thread
from support.model.paged_cases import new_seed

__all__ = ["new_seed", "one_thread"]
