"""The event log in a file: written while the engine runs, and read forward and back.

`log` writes, `recording` reads; `event_index` and `keyframes` make any moment of a long one quick
to reach.
"""
