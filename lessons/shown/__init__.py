"""Small, plain versions of what the engine does, and figures for the lessons, even without a GPU.

Read `small_engine` first: the whole engine on one page. Exercises without an engine have their
source here; a student gets a file without some of its functions.
"""
