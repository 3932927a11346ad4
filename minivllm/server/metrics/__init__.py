"""TODO minivllm/server/metrics."""
