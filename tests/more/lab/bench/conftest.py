"""Benchmarks set torch's thread count for the whole process; this fixture restores it."""

from support.model.one_thread import one_thread
