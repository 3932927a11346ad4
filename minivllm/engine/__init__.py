"""TODO minivllm/engine."""
