"""The dashboard: a terminal view of one engine, drawn from its events alone.

`app.DashboardApp` is the program; `source` and `model` do not need Textual. Nothing here imports
torch or reads the engine: what is on the screen is a fold of the event stream.
"""
