"""The event log in a file: `log` writes it, `recording` reads it forward and back.

`event_index` and `keyframes` make any moment of a long recording quick to reach.
"""
