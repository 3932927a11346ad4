"""The engine's events for others: as server-sent events for `minivllm attach`, and as vLLM's KV
events over ZeroMQ.
"""
