"""The sources of the dashboard, one file each; `minivllm.tui.source` says what a source is."""
