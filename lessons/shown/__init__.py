"""The figures that lessons show: what a decode must read, and what kernels do and how fast they
are, where no GPU is at hand.

Read `roofline` first, then `rungs`.
"""
