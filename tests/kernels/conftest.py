"""Fixtures of the kernel tests; tensors this small are slower with two threads than with one."""

from paged_cases import seed
from tiny_models import one_thread

__all__ = ["one_thread", "seed"]
