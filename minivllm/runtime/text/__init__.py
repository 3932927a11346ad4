"""TODO minivllm/runtime/text."""
