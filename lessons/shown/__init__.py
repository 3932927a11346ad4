"""Figures for the lessons, even without a GPU: what a decode reads, and how fast kernels are.

Read `roofline` first, then `kernel_reads`.
"""
