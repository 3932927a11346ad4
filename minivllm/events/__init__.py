"""The event stream: the only thing that a view of the engine may read. See `types` for the
vocabulary.
"""
