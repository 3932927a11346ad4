"""Fakes, drivers and reference implementations that the tests share."""
