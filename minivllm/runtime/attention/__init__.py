"""TODO minivllm/runtime/attention."""
