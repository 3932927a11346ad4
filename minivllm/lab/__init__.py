"""Measuring, comparing, simulating. The engine never imports any of this.

`bench` measures, `compare` runs one trace through two configurations, `simulate` replaces the model
by its step times.
"""
