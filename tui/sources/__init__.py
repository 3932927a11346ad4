"""The sources of the dashboard, one file each; `minivllm.tui.sources.source` says what a source
is.
"""
