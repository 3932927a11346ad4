"""Sentences and texts: why is it so (`w`), what has changed (`D`), the source of a decision (`s`),
and notices.
"""
