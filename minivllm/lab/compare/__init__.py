"""One trace through two configurations of the engine, at the same memory, measured and shown side
by side.
"""
