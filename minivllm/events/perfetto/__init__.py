"""Converts a recording to a trace for Perfetto (ui.perfetto.dev). Read `export` first."""
