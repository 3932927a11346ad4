"""Panels about memory: block map, free queue, prefix tree, inspector, attention mass and x-ray."""
