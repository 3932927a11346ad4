"""Tools to measure, compare and simulate; the engine never imports them.

`bench` measures, `compare` runs one trace through two configurations, and `simulate` replaces the
model by its step times.
"""
