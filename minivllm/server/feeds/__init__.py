"""The engine's events as server-sent events, for `minivllm attach`."""
