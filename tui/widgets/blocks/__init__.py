"""Panels on memory: block map, free queue, prefix tree, inspector, attention mass and x-ray."""
