"""TODO minivllm/runtime/store/toys."""
