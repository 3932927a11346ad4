"""An engine without a model, random traces for it, and slow reference implementations of its memory
and schedule.
"""
