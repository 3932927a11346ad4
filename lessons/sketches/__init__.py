"""Small, plain versions of what the engine does, as the source of exercises without an engine.

Read `flat_batch` first. A student gets a file of this folder without some of its functions.
"""
