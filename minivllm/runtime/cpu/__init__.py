"""TODO minivllm/runtime/cpu."""
