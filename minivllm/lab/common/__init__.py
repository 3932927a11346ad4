"""TODO minivllm/lab/common."""
