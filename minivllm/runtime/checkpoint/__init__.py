"""TODO minivllm/runtime/checkpoint."""
