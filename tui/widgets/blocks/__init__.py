"""Panels on memory: the block map, the free queue, the prefix tree, one block in full, and what
attention reads of it.
"""
