"""Figures for the lessons, also without a GPU: what a decode reads, and the speed of kernels.

Read `roofline` first, then `rungs`.
"""
