"""Tiny models and their files, attention cases, and slow reference implementations of what
computes.
"""
