"""A recording as a trace for Perfetto (ui.perfetto.dev): a row for each batch slot, and what each
step did.

Read `export` first.
"""
