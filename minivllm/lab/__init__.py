"""TODO minivllm/lab."""
