"""TODO minivllm/runtime/sampling."""
