"""Tools to measure, compare and simulate; the engine never imports them.

`bench` measures, `compare` runs one trace through two configurations, and `simulate` runs the
scheduler without a model: a formula gives the time of each step.
"""
