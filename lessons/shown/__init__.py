"""Figures for the lessons, also without a GPU: what a decode must read, and how kernels perform.

Read `roofline` first, then `rungs`.
"""
