"""The event log in a file: `log` writes the file, `recording` reads it forward and backward.

With `event_index` and `keyframes`, any moment of a long recording can be reached quickly.
"""
