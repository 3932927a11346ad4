"""Tiny models and files, attention cases, and reference implementations of the computation."""
