"""Fakes, drivers and reference implementations that the tests share, in the same rooms as the
tests.
"""
