"""TODO minivllm/runtime/store."""
