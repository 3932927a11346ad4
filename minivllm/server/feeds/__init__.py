"""Feeds of the engine's events: server-sent events for `minivllm attach`, KV events over ZeroMQ."""
